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


def section(kind: str) -> str:
    """What the page must say of a kind."""
    defaults = DEFAULTS[kind]
    lines = [f"### {TITLES[kind]}", "", "| Does not count by default | Why |", "| --- | --- |"]
    lines += [f"| `{path}` | {reason} |" for path, reason in defaults.quiet.items()]
    lines.append("")
    for path, groups in defaults.keys.items():
        known = ", else ".join(" and ".join(f"`{name}`" for name in group) for group in groups)
        lines.append(f"- Items of `{path}` are known by {known}.")
    if defaults.caseless:
        lines.append(f"- Case has no meaning in {code(sorted(defaults.caseless))}.")
    if defaults.names:
        lines.append(f"- Case and punctuation have none in {code(sorted(defaults.names))}.")
    if defaults.numbered:
        lines.append(f"- Words with digits have none in {code(sorted(defaults.numbered))}.")
    return "\n".join([*lines, ""])


@pytest.mark.parametrize("kind", DEFAULTS)
def test_the_page_lists_the_defaults_of_each_kind(kind: str) -> None:
    assert f"\n{section(kind)}" in PAGE, f"docs/changes.md should have:\n\n{section(kind)}"
