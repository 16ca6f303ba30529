"""A workflow at every limit of the language is valid, runs, and stays within the memory of a worker."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from database import Database
from language.steps import MAX_CONCURRENCY, MAX_ITEMS, MAX_STEPS
from settings import Settings
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    accept_each,
    process,
    seen,
    transform,
    webhook,
)

pytestmark = pytest.mark.long

EXECUTION = "shift"
LARGE = "x" * (1024 * 1024 - 1024)
DEPTH = 50
MOST_MIB = 400


def steps(url: str) -> list[dict[str, Any]]:
    """As many as there may be: calls with answers of 1 MiB, one over 1,000 items, values 50 deep."""
    items = webhook(f"{url}/item", "items", body="{{ item }}") | {
        "for_each": "trigger.items", "max_concurrency": MAX_CONCURRENCY
    }  # fmt: skip
    deep = transform("deep", f"trigger.deep{'.a' * (DEPTH - 1)}")
    found = [items, deep]
    while len(found) < MAX_STEPS - 2:
        number = len(found)
        found += [
            webhook(f"{url}/large", f"call{number}", method="GET"),
            transform(f"length{number}", f"length(call{number}.body)"),
        ]
    all_lengths = f"[{', '.join(step['id'] for step in found if step['id'].startswith('length'))}]"
    found.append(transform("lengths", all_lengths))
    return [*found, transform("end", "[length(items), deep, length(lengths), min(lengths), max(lengths)]")]


def nested(depth: int) -> Any:
    value: Any = "bottom"
    for _ in range(depth):
        value = {"a": value}
    return value


async def answer(request: web.Request) -> web.Response:
    return web.json_response(LARGE if request.path == "/large" else {"ok": True})


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells the most memory that a process has had")
async def test_a_workflow_at_every_limit_runs_within_the_memory_of_a_worker(
    open_settings: Settings, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    async def forget(request: web.Request) -> web.Response:
        receiver.requests.clear()
        return await answer(request)

    receiver.handler = forget
    target = await new_target(steps(receiver.url))
    event = {"items": list(range(MAX_ITEMS)), "deep": nested(DEPTH - 1)}
    run_ids = await accept_each(database, target, [event] * 2)
    with process(open_settings, "cli", "worker") as worker:
        views = await asyncio.gather(
            *(
                seen(database, target.account_id, one, lambda view: bool(view.completed_at), 120)
                for one in run_ids
            )
        )
        status = Path(f"/proc/{worker.pid}/status").read_text()
    calls = (MAX_STEPS - 4) // 2
    for view in views:
        assert (view.status, view.steps_total, view.error) == ("completed", MAX_STEPS, None)
        assert view.output == [MAX_ITEMS, "bottom", calls, len(LARGE), len(LARGE)]
    [peak] = [line for line in status.splitlines() if line.startswith("VmHWM")]
    assert int(peak.split()[1]) / 1024 < MOST_MIB
