"""`vedette doctor`."""

from __future__ import annotations

import asyncio

import typer

from cli.connecting import read_settings, with_running_servers
from cli.printing import Json, print_data


def doctor(as_json: Json = False) -> None:
    """Look at each part, and say what to do about what is broken. Exits with 1 if something is."""
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
