"""Histories of every shape, committed: code that would decide otherwise fails here, without a server.

A history that is missing from `tests/histories` is recorded by the live tests below. To change one on
purpose, delete its file; runs that are under way in the field replay like the old one, so that is for a new
engine version only.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from temporalio.client import Client, WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from database import Database, Notifier
from models import runs
from sealing import Keyring
from settings import Settings
from tests.automations.engine import Endpoint, NewTarget, ended, transform, webhook, working
from worker import workflow_runner
from workflows.automations import AutomationBatch
from workflows.maintenance import Maintenance

HISTORIES = Path(__file__).parents[1] / "histories"
Shape = tuple[Callable[[str], list[dict[str, Any]]], list[Any]]

CONDITION = {"id": "big", "type": "condition", "config": {"expression": "trigger > 2"}}
BRANCHES = {**CONDITION, "config": {"expression": "trigger > 2", "then": ["call"], "else": ["no"]}}
LOOKUP = {"id": "lookup", "type": "ip_lookup", "config": {"field": "trigger"}}

SHAPES: dict[str, Shape] = {
    "linear": (
        lambda url: [LOOKUP, transform("city", "lookup.location.city"), webhook(url, body="{{ city }}")],
        ["8.8.8.8"],
    ),
    "pure": (lambda url: [CONDITION, transform("twice", "[trigger, trigger]")], [3]),
    "both-branches": (
        lambda url: [
            BRANCHES,
            webhook(url),
            transform("no", "'small'"),
            transform("end", "[call.status, no]"),
        ],
        [1, 5],
    ),
    "side-by-side": (
        lambda url: [
            webhook(url, "a"),
            webhook(url, "b") | {"needs": []},
            transform("both", "[a.status, b.status]", needs=["a", "b"]),
        ],
        [1],
    ),
    "retries": (lambda url: [webhook(f"{url}/503-twice")], [1]),
    "on-error": (
        lambda url: [
            webhook(f"{url}/404") | {"on_error": ["mend"]},
            transform("mend", "steps.call.error.code"),
            transform("end", "mend"),
        ],
        [1],
    ),
    "failed": (lambda url: [webhook(f"{url}/404"), transform("never", "'x'")], [1]),
    "short-delay": (
        lambda url: [
            {"id": "wait", "type": "delay", "config": {"seconds": 0.1}},
            transform("end", "wait.until"),
        ],
        [1],
    ),
    "slow-call": (
        lambda url: [webhook(url + "{{ trigger }}"), transform("end", "trigger")],
        ["/slow", "/a", "/b"],
    ),
    "a-batch-that-parts": (
        lambda url: [BRANCHES, webhook(f"{url}/503-twice", body="{{ trigger }}"), transform("no", "trigger")],
        list(range(16)),
    ),
}


def answer(request: dict[str, Any], seen: dict[str, int]) -> web.Response:
    """404 and 503 as the path says, the latter twice for each call; else 200."""
    call_id = request["headers"]["webhook-id"]
    seen[call_id] = seen.get(call_id, 0) + 1
    if request["path"] == "/404" or (request["path"] == "/503-twice" and seen[call_id] <= 2):
        return web.json_response({}, status=int(request["path"][1:4]))
    return web.json_response({"ok": True})


def replayer() -> Replayer:
    return Replayer(
        workflows=[AutomationBatch, Maintenance],
        workflow_runner=workflow_runner(),
        data_converter=pydantic_data_converter,
    )


@pytest.mark.parametrize("path", sorted(HISTORIES.glob("*.json")), ids=lambda path: path.stem)
async def test_a_committed_history_replays(path: Path) -> None:
    history = WorkflowHistory.from_json(f"automation/{path.stem}", path.read_text())
    await replayer().replay_workflow(history)


def test_every_shape_has_a_committed_history() -> None:
    assert {path.stem for path in HISTORIES.glob("*.json")} == set(SHAPES)


@pytest.fixture(scope="module")
async def unsealed(
    open_settings: Settings, database: Database, keyring: Keyring
) -> AsyncGenerator[tuple[Client, Notifier]]:
    """A worker whose histories can be read, as the committed ones can."""
    client = await Client.connect(str(open_settings.temporal_address), data_converter=pydantic_data_converter)
    async with working(open_settings, client, database, keyring) as notifier:
        yield client, notifier


@pytest.mark.parametrize("name", SHAPES)
async def test_a_history_made_now_replays(
    name: str,
    unsealed: tuple[Client, Notifier],
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
) -> None:
    client, notifier = unsealed
    seen: dict[str, int] = {}
    receiver.answer = lambda request: answer(request, seen)
    steps, payloads = SHAPES[name]
    target = await new_target(steps(receiver.url))
    async with database.transaction() as connection:
        # All rows in one transaction, so that one claim finds them together.
        run_ids = [(await runs.accept(connection, target, "manual", p)).run_id for p in payloads]
    await asyncio.gather(*(ended(database, notifier, target.account_id, run_id) for run_id in run_ids))
    async with database.connection() as connection:
        cursor = await connection.execute("select distinct batch_id from runs where id = any(%s)", (run_ids,))
        [row] = await cursor.fetchall()
    handle = client.get_workflow_handle(f"automation/{row['batch_id']}")
    await handle.result()
    history = await handle.fetch_history()
    await replayer().replay_workflow(history)
    path = HISTORIES / f"{name}.json"
    if not path.exists():
        path.write_text(history.to_json() + "\n")
