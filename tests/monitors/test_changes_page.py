"""docs/changes.md lists the defaults as they are."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from models.monitors.defaults import DEFAULTS

PAGE = (Path(__file__).resolve().parents[2] / "docs/changes.md").read_text()
TITLES = {
    "email": "E-mail addresses",
    "phone": "Phone numbers",
    "domain": "Domains",
    "ip": "IP addresses",
    "company": "Companies",
    "darkweb": "The dark web",
}


def code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def unit(kind: str, path: str) -> str:
    """In what the tolerance of a field is measured."""
    if path in DEFAULTS[kind].rotating or path in ("dns.a", "dns.aaaa"):
        return "members"
    if path.endswith(("_at", "_seen", "_date")):
        return "days"
    return "word" if path in ("dns.soa", "ssl.issuer") else "words" if path == "results.body" else ""


def section(kind: str) -> str:
    """Return what the page must say of a kind."""
    defaults = DEFAULTS[kind]
    lines = [f"### {TITLES[kind]}", "", "| Field | Default tolerance | Why |", "| --- | --- | --- |"]
    lines += [
        f"| `{path}` | {f'{one.amount:g} {unit(kind, path)}'.rstrip()} | {one.why} |"
        for path, one in defaults.tolerances.items()
    ]
    lines.append("")
    if defaults.clocks:
        lines.append(f"- {code(sorted(defaults.clocks))} say what clocks show now, and never count.")
    if defaults.spoken:
        lines.append(f"- {code(sorted(defaults.spoken))} only tells of other fields, and never counts.")
    for path, groups in defaults.keys.items():
        known = ", else ".join(" and ".join(f"`{name}`" for name in group) for group in groups)
        lines.append(f"- Items of `{path}` are known by {known}.")
    if defaults.caseless:
        lines.append(f"- Case has no meaning in {code(sorted(defaults.caseless))}.")
    if defaults.names:
        lines.append(f"- Case and punctuation have none in {code(sorted(defaults.names))}.")
    if defaults.pictures:
        lines.append(f"- Of {code(sorted(defaults.pictures))} only the path of the URL has a meaning.")
    return "\n".join([*lines, ""])


@pytest.mark.parametrize("kind", DEFAULTS)
def test_the_page_lists_the_defaults_of_each_kind(kind: str) -> None:
    assert f"\n{section(kind)}" in PAGE, f"docs/changes.md should have:\n\n{section(kind)}"
