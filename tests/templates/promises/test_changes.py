"""What templates of monitors promise: what was and what is, of the fields that they name, in one alert."""

from __future__ import annotations

from typing import Any

import pytest

from database import Database
from tests.api_server import Person
from tests.automations.engine import Endpoint, requested, until
from tests.templates.copies import copy, sent
from tests.templates.promises.conftest import Copied
from tests.templates.promises.world import World

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("worker")]

REGISTRAR = {"old": "A", "new": "B", "added": [], "removed": []}
MX = {"old": ["10 a"], "new": ["20 b"], "added": ["20 b"], "removed": ["10 a"]}
SERVERS = {"old": ["x", "y"], "new": ["y", "z"], "added": ["z"], "removed": ["x"]}


def event(*changes: tuple[str, dict[str, Any]], more: int = 0) -> dict[str, Any]:
    """Return what a monitor tells of its run."""
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


async def test_only_what_a_hijacker_changes_is_warned_of(copied: Copied) -> None:
    alerts = await copied("hijack-alert")
    harmless = {"dns.txt": MX, "whois.expires": REGISTRAR, "verdict.level": REGISTRAR}
    assert await alerts(event(("a.example", harmless))) == []
    changes = {"whois.registrar": REGISTRAR, "whois.name_servers": SERVERS, "dns.ns": SERVERS, "dns.mx": MX}
    [text] = await alerts(event(("a.example", harmless), ("b.example", harmless | changes)))
    assert text.splitlines()[1:] == [
        "b.example whois.registrar: A → B",
        "b.example whois.name_servers: +z, -x",
        "b.example dns.ns: +z, -x",
        "b.example dns.mx: +20 b, -10 a",
    ]
    [text] = await alerts(event(("a.example", harmless), more=7))
    assert text.endswith("There is more: see the results of the run r")


async def test_only_what_matters_of_a_supplier_is_told(copied: Copied) -> None:
    alerts = await copied("supplier-watch")
    harmless = {"profile.logo": REGISTRAR, "profile.employee_count": REGISTRAR, "dns.txt": MX}
    assert await alerts(event(("Example Bank", harmless))) == []
    status = {"old": "active", "new": "dissolved", "added": [], "removed": []}
    [text] = await alerts(event(("Example Bank", harmless | {"profile.status": status})))
    assert text == "Changes of suppliers (Ours)\nExample Bank profile.status: active → dissolved"


async def run_monitor(person: Person, monitor_id: str) -> str:
    """Run a monitor to its end."""
    started = (await person.key.post(f"/api/monitors/{monitor_id}/run")).json()
    path = f"/api/monitors/{monitor_id}/runs/{started['run_id']}"

    async def status() -> str:
        found = (await person.key.get(path)).json()["status"]
        return found if found in ("completed", "failed") else ""

    return await until(status)


async def test_a_monitor_of_domains_warns_of_a_hijack_and_not_of_an_outage(
    person: Person, world: World, receiver: Endpoint
) -> None:
    world.domain("example.com")
    monitor = {"name": "Domains", "monitor_type": "domain", "frequency": "daily", "targets": ["example.com"]}
    made = (await person.key.post("/api/monitors", json=monitor)).json()
    for template_id in ("hijack-alert", "supplier-watch", "monitor-changes"):
        trigger = {"type": "monitor_event", "monitor_id": made["id"]}
        await copy(person, template_id, trigger=trigger)

    assert await run_monitor(person, made["id"]) == "completed"
    with world.silent("rdapdomain", "dns"):
        assert await run_monitor(person, made["id"]) == "completed"
    assert await run_monitor(person, made["id"]) == "completed" and sent(receiver) == []
    world.zone["example.com"]["MX"] = ["10 mail.evil.example."]
    assert await run_monitor(person, made["id"]) == "completed"
    await requested(receiver, 3)
    line = "example.com dns.mx: +10 mail.evil.example, -10 mail.example.com"
    assert all(line in body["text"] for _, body in sent(receiver))


async def test_a_register_that_is_silent_for_a_day_is_no_news_of_a_supplier(
    person: Person, world: World, receiver: Endpoint
) -> None:
    monitor = {
        "name": "Suppliers", "monitor_type": "company", "frequency": "daily", "targets": ["Example Bank"],
    }  # fmt: skip
    made = (await person.key.post("/api/monitors", json=monitor)).json()
    await copy(person, "supplier-watch", trigger={"type": "monitor_event", "monitor_id": made["id"]})

    async def supplier_alerts() -> set[str]:
        """Return what is told of this monitor: other copies listen to all monitors of the account."""
        return {
            body["text"] for _, body in sent(receiver) if "Changes of suppliers (Suppliers)" in body["text"]
        }

    assert await run_monitor(person, made["id"]) == "completed"
    with world.silent("wikidata"):
        await run_monitor(person, made["id"])
    assert await run_monitor(person, made["id"]) == "completed"
    assert await supplier_alerts() == set()
    with world.officer_is("Eve Sample"):
        assert await run_monitor(person, made["id"]) == "completed"
    [text] = await until(supplier_alerts)
    [_, line] = text.splitlines()
    assert line.startswith("Example Bank profile.officers: +{") and '"Eve Sample"' in line


async def test_a_source_that_stays_silent_is_told_once_and_so_is_its_return(
    person: Person, world: World, receiver: Endpoint, database: Database
) -> None:
    world.domain("example.com")
    monitor = {
        "name": "Registrars", "monitor_type": "domain", "frequency": "daily", "targets": ["example.com"],
        "tracked_fields": ["whois.registrar", "dns.mx"],
    }  # fmt: skip
    made = (await person.key.post("/api/monitors", json=monitor)).json()
    trigger = {"type": "monitor_event", "monitor_id": made["id"]}
    await copy(person, "source-health", trigger=trigger | {"event": "monitor.source_silent"})
    await copy(person, "source-health", trigger=trigger | {"event": "monitor.source_back"})

    async def run_on_the_next_day() -> None:
        await run_monitor(person, made["id"])
        async with database.connection() as connection:
            await connection.execute(
                "update monitor_sources set silent_since = silent_since - interval '1 day'"
                " where monitor_id = %s",
                (made["id"],),
            )

    async def alert() -> str:
        told = [body["text"] for _, body in sent(receiver) if body["text"].startswith("Registrars ")]
        assert len(told) <= 1
        return told[0] if told else ""

    await run_on_the_next_day()
    with world.silent("rdapdomain"):
        for _ in range(3):
            await run_on_the_next_day()
        silent = await until(alert)
    assert silent.startswith("Registrars has not heard rdapdomain in 2 runs, since 20")
    assert ": it fails. What it knows is carried over" in silent
    await run_on_the_next_day()
    back = await until(alert)
    assert back.startswith("Registrars hears rdapdomain again, which was silent since 20")
