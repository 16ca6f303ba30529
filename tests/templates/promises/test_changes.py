"""What templates of monitors promise: what was and what is, of the fields that they name, in one alert."""

from __future__ import annotations

from typing import Any

import pytest

from tests.templates.promises.conftest import Copied

pytestmark = pytest.mark.usefixtures("worker")

REGISTRAR = {"old": "A", "new": "B", "added": [], "removed": []}
MX = {"old": ["10 a"], "new": ["20 b"], "added": ["20 b"], "removed": ["10 a"]}
SERVERS = {"old": ["x", "y"], "new": ["y", "z"], "added": ["z"], "removed": ["x"]}


def event(*changes: tuple[str, dict[str, Any]], more: int = 0) -> dict[str, Any]:
    """What a monitor tells of its run."""
    told = [{"target": target, "changes": of} for target, of in changes]
    return {
        "monitor_name": "Ours", "run_id": "r", "total_records": 9, "changes_detected": len(told) + more,
        "changes": told, "more": more,
    }  # fmt: skip


async def test_each_change_says_what_was_and_what_is(copied: Copied) -> None:
    alerts = await copied("monitor-changes")
    officers = {"old": [{"name": "Ada", "role": "chair"}], "new": [{"name": "Ada", "role": None}]}
    rows = {"whois.registrar": REGISTRAR, "dns.mx": MX, "is_tor": {"old": None, "new": True}}
    text = await alerts(event(("a.example", rows), ("b.example", {"officers": officers})))
    assert text == [
        "Ours: 2 of 9 targets have changed\n"
        "a.example whois.registrar: A → B\n"
        "a.example dns.mx: +20 b, -10 a\n"
        "a.example is_tor: nothing → true\n"
        'b.example officers: +{"name":"Ada","role":null}, -{"name":"Ada","role":"chair"}'
    ]


async def test_many_and_large_changes_are_told_in_part_and_say_so(copied: Copied) -> None:
    alerts = await copied("monitor-changes")
    many = [f"{n} a text record" for n in range(5000)]
    wide = {f"field{n}": {"old": "x" * 2000, "new": many, "added": many, "removed": []} for n in range(60)}
    [text] = await alerts(event(("a.example", dict(list(wide.items())[:1]))))
    assert text.count("+") == 5 and "more" not in text
    small = {name: {"old": "x" * 2000, "new": many[:50]} for name in wide}
    [text] = await alerts(event(("a.example", small), more=3))
    assert len(text.splitlines()) == 52 and len(text) < 20_000
    assert text.endswith("There is more: see the results of the run r")
