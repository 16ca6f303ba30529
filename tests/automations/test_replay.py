"""Histories of every shape, committed: code that would decide otherwise fails here, without a server.

A history that is missing from `tests/histories` is recorded by the live tests below. To change one on
purpose, delete its file. From the first release on that is for a new engine version only: runs that are under
way in the field replay like the old one.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from temporalio.client import Client, WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from database import Database, Notifier
from language.records import INLINE_BYTES
from models import restarts, runs
from models.runs import QUEUED_CHANNEL
from sealing import Keyring
from settings import Settings
from temporal.sandbox import workflow_runner
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    accept_each,
    ended,
    transform,
    until,
    webhook,
    working,
)
from tests.automations.test_dispatcher import batch_of
from tests.automations.test_engine import wake_now
from workflows.automations import AutomationBatch
from workflows.maintenance import Maintenance

HISTORIES = Path(__file__).parents[1] / "histories"
RETRIED = "a-retried-run"
PARKED, WOKEN = "a-batch-that-parks-a-run", "a-batch-that-wakes-one"
Shape = tuple[Callable[[str], list[dict[str, Any]]], list[Any]]
LONG = "continue-as-new"
"""Recorded on the server that finds a history long after few events."""

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
        lambda url: [webhook(url + "/{{ trigger }}"), transform("end", "trigger")],
        ["slow", "a", "b"],
    ),
    "nested": (
        lambda url: [
            BRANCHES,
            {
                "id": "call",
                "type": "condition",
                "config": {"expression": "trigger > 4", "then": ["huge"], "else": ["middle"]},
            },
            transform("huge", "'huge'"),
            webhook(url, "middle"),
            transform("no", "'small'"),
            transform("end", "[huge, middle.status, no]"),
        ],
        [1, 3, 5],
    ),
    "for-each": (
        lambda url: [
            {**webhook(f"{url}/503-twice", "each"), "for_each": "trigger", "max_concurrency": 4},
            transform("end", "each[].status"),
        ],
        [list(range(12)), [], [1]],
    ),
    "by-reference": (
        lambda url: [
            webhook(f"{url}/big", "big"),
            {"id": "is_big", "type": "condition", "config": {"expression": "length(big.body) > 10"}},
            {**webhook(url, "each", body="{{ item }}"), "for_each": "[length(big.body)]"},
            transform("end", "[length(big.body), length(each)]"),
        ],
        [1, 2],
    ),
    "cancelled": (lambda url: [webhook(f"{url}/{{{{ trigger }}}}"), transform("end", "1")], ["held", "a"]),
    LONG: (
        lambda url: [
            {**webhook(f"{url}/503-twice", "each"), "for_each": "trigger", "max_concurrency": 2},
            {"id": "wait", "type": "delay", "config": {"seconds": 0.5}},
            transform("end", "length(each)"),
        ],
        [list(range(12))],
    ),
    RETRIED: (
        lambda url: [
            webhook(url, "first"),
            webhook(f"{url}/404-first", "second", body="{{ first.status }}"),
            transform("end", "[first.status, second.status]"),
        ],
        [1],
    ),
    "much-to-evaluate": (
        lambda url: [
            transform(name, f"length(map(&to_string(@), trigger[:{count}]))")
            for name, count in {"a": 8000, "b": 4000, "c": 4000}.items()
        ],
        [list(range(8000))] * 8,
    ),
    **dict.fromkeys(
        (PARKED, WOKEN),
        (
            lambda url: [
                {**BRANCHES, "config": {"expression": "trigger > 2", "then": ["wait"]}},
                {"id": "wait", "type": "delay", "config": {"seconds": 31 * 86_400}},
                webhook(url, body="{{ trigger }}"),
            ],
            [5, 1],
        ),
    ),
    "a-batch-of-64-that-parts": (
        lambda url: [BRANCHES, webhook(f"{url}/503-twice", body="{{ trigger }}"), transform("no", "trigger")],
        [n % 7 for n in range(64)],
    ),
    "a-batch-that-parts": (
        lambda url: [BRANCHES, webhook(f"{url}/503-twice", body="{{ trigger }}"), transform("no", "trigger")],
        list(range(16)),
    ),
}


def answer(request: dict[str, Any], seen: dict[str, int]) -> web.Response:
    """404 and 503 as the path says, the latter twice for each call; else 200."""
    call_id = request["path"] if request["path"] == "/404-first" else request["headers"]["webhook-id"]
    seen[call_id] = seen.get(call_id, 0) + 1
    fails = {"/404": True, "/404-first": seen[call_id] == 1, "/503-twice": seen[call_id] <= 2}
    if fails.get(request["path"]):
        return web.json_response({}, status=int(request["path"][1:4]))
    return web.json_response("x" * INLINE_BYTES if request["path"] == "/big" else {"ok": True})


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


Unsealed = tuple[Client, Notifier]


@asynccontextmanager
async def _unsealed(settings: Settings, database: Database, keyring: Keyring) -> AsyncGenerator[Unsealed]:
    """A worker whose histories can be read, as the committed ones can."""
    client = await Client.connect(str(settings.temporal_address), data_converter=pydantic_data_converter)
    async with working(settings, client, database, keyring) as notifier:
        yield client, notifier


@pytest.fixture
async def unsealed(
    name: str, open_settings: Settings, impatient: Settings, database: Database, keyring: Keyring
) -> AsyncGenerator[Unsealed]:
    async with _unsealed(impatient if name == LONG else open_settings, database, keyring) as running:
        yield running


async def waiting(database: Database, run_id: UUID) -> bool:
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select 1 from runs where id = %s and status = 'waiting'", (run_id,)
        )
        return await cursor.fetchone() is not None


async def cancel(client: Client, database: Database, account_id: UUID, run_id: UUID) -> None:
    async with database.transaction() as connection:
        batch_id = await runs.cancel(connection, account_id, run_id)
    await client.get_workflow_handle(f"automation/{batch_id}").signal("cancel_runs", [run_id])


@pytest.mark.parametrize("name", SHAPES)
async def test_a_history_made_now_replays(
    name: str, unsealed: Unsealed, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    client, notifier = unsealed
    seen: dict[str, int] = {}
    receiver.answer = lambda request: answer(request, seen)
    steps, payloads = SHAPES[name]
    target = await new_target(steps(receiver.url))
    run_ids = await accept_each(database, target, payloads)
    notifier.notify(QUEUED_CHANNEL)
    if name == "cancelled":
        await ended(database, notifier, target.account_id, run_ids[1])
        await cancel(client, database, target.account_id, run_ids[0])
        receiver.open.set()
    if name in (PARKED, WOKEN):
        await until(lambda: waiting(database, run_ids[0]))
        wakes_up = run_ids.pop(0)
    await asyncio.gather(*(ended(database, notifier, target.account_id, run_id) for run_id in run_ids))
    if name == WOKEN:
        await wake_now(database, client, wakes_up)
        await ended(database, notifier, target.account_id, wakes_up)
        run_ids = [wakes_up]
    if name == RETRIED:
        async with database.transaction() as connection:
            accepted = await restarts.restart(connection, target.account_id, run_ids[0])
        run_ids = [accepted.run_id]
        view = await ended(database, notifier, target.account_id, accepted.run_id)
        assert view.output == [200, 200]
    handle = client.get_workflow_handle(f"automation/{await batch_of(database, run_ids[0])}")
    await handle.result()
    history = await handle.fetch_history()
    await replayer().replay_workflow(history)
    if name == LONG:
        # What decides to go on with a new history is the first one.
        first = history.events[0].workflow_execution_started_event_attributes.first_execution_run_id
        history = await client.get_workflow_handle(handle.id, run_id=first).fetch_history()
        await replayer().replay_workflow(history)
    path = HISTORIES / f"{name}.json"
    if not path.exists():
        path.write_text(history.to_json() + "\n")
