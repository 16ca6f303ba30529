"""`vedette doctor`."""

from __future__ import annotations

import asyncio

import typer

from cli.connecting import read_settings, with_running_servers
from cli.printing import Json, print_data


def doctor(as_json: Json = False) -> None:
    """Check each part, and suggest a remedy for each broken one. Exits with 1 if one is broken."""
    from dataclasses import asdict

    from embedded.doctor import examine

    findings = asyncio.run(examine(with_running_servers(read_settings())))
    lines: list[str] = []
    for finding in findings:
        lines.append(f"{finding.state:<8} {finding.part:<12} {finding.text}")
        lines += [f"{'':<21} → {line}" for line in finding.remedy.splitlines()]
    print_data([asdict(finding) for finding in findings], "\n".join(lines), as_json)
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(1)
