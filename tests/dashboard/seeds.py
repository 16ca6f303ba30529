"""What an account has in which something happens: each page and each state of one has something to show."""

from __future__ import annotations

from typing import Any, NamedTuple

import httpx
from aiohttp import web

from database import Database
from tests.automations.engine import Endpoint, until
from tests.dashboard.browsing import make, start
from tests.monitors.conftest import forget_answers
from tests.monitors.watching import Scanner, answering, reported, scanned_as

TARGETS = ["8.8.8.8", "1.1.1.1", "193.0.6.139"]
FORM = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
}


class Seeded(NamedTuple):
    """The ids of what was made."""

    failed: str
    repeated: str
    waiting: str
    items: str
    parent: str
    workflow: str
    monitor: str


def answer_crm(request: dict[str, Any]) -> web.Response:
    """Answer as endpoints do that are well on most days."""
    body = request["body"]
    if request["path"] == "/alarm":
        return web.json_response({"error": "no such channel"}, status=404)
    if request["path"] == "/mail" and '"item":3' in body:
        return web.json_response({"error": "unknown mailbox"}, status=404)
    return web.json_response({"ok": True, "ticket": "https://crm.example/tickets/4711"})


async def seed(api: httpx.AsyncClient, called: Endpoint, *, runs: int = 6) -> Seeded:
    """Make workflows with runs in each state; `runs` of the first one complete."""
    called.answer = answer_crm
    visitor = await make(api, "Score a visitor", *_visitor_steps(called.url))
    for number in range(runs):
        event = {"ip": "8.8.8.8", "visits": number % 36, "customer": {"email": "ada@example.com"}}
        await start(api, visitor, event)
    failed = [await start(api, visitor, {"ip": "1.1.1.1", "visits": n}) for n in (40, 41, 42)]
    repeated = await api.post(f"/api/workflows/runs/{failed[0]['id']}/retry")
    assert repeated.status_code == 202, repeated.text
    mail = {
        "id": "mail", "type": "webhook", "for_each": "trigger.people", "on_error": "continue",
        "config": {"url": f"{called.url}/mail", "body": {"item": "{{item}}"}},
    }  # fmt: skip
    letters = await make(api, "Send the letters", mail)
    items = await start(api, letters, {"people": list(range(24))})
    child = {"id": "score", "type": "workflow", "config": {"workflow_id": visitor, "input": "{{ trigger }}"}}
    parent = await start(api, await make(api, "Welcome a customer", child), {"ip": "8.8.8.8", "visits": 1})
    question = {"title": "Refund 120 € to Ada?", "message": "Order 4711 came late.", "input_schema": FORM}
    ask = {"id": "ask", "type": "wait", "config": question}
    refund = await make(api, "Approve a refund", ask)
    waiting = await start(api, refund, {"order": 4711}, wait=0)
    monitor = await api.post(
        "/api/monitors",
        json={"name": "Our servers", "monitor_type": "ip", "frequency": "daily", "targets": TARGETS},
    )
    assert monitor.status_code == 201, monitor.text
    return Seeded(
        failed[1]["id"], repeated.json()["run_id"], waiting["id"], items["id"], parent["id"], visitor,
        monitor.json()["id"],
    )  # fmt: skip


def _visitor_steps(url: str) -> list[dict[str, Any]]:
    choice = {"expression": "score > `30`", "then": ["alarm"], "else": ["note"]}
    note = {"url": f"{url}/crm", "body": {"score": "{{score.output}}"}}
    return [
        {"id": "visitor", "type": "ip_lookup", "config": {"field": "trigger.ip"}},
        {"id": "score", "type": "transform", "config": {"expression": "trigger.visits"}},
        {"id": "risky", "type": "condition", "config": choice},
        {"id": "alarm", "type": "webhook", "config": {"url": f"{url}/alarm"}},
        {"id": "note", "type": "webhook", "config": note},
    ]


async def run_monitor(api: httpx.AsyncClient, database: Database, monitor: str) -> dict[str, Any]:
    """Run a monitor that asks all sources anew; return its run when it has ended."""
    await forget_answers(database)
    begun = await api.post(f"/api/monitors/{monitor}/run")
    assert begun.status_code == 202, begun.text

    async def look() -> dict[str, Any] | None:
        found = (await api.get(f"/api/monitors/{monitor}/runs")).json()["runs"]
        return next(
            (run for run in found if run["id"] == begun.json()["run_id"] and run["completed_at"]), None
        )

    return await until(look)


async def change_what_is_known(
    api: httpx.AsyncClient, database: Database, monitor: str, scanner: Scanner
) -> None:
    """Have the monitor find a change, and then a source silent."""
    await run_monitor(api, database, monitor)
    scanner.greynoise, scanner.abuseipdb = scanned_as("malicious"), reported("Data Center", 92)
    await run_monitor(api, database, monitor)
    scanner.greynoise = answering(503)
    await run_monitor(api, database, monitor)
