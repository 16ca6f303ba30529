"""Worker processes that are killed as `kill -9` does it, and what becomes of the runs that they had."""

from __future__ import annotations

import signal
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from temporalio.client import Client

from database import Database
from sealing import Keyring
from settings import Settings
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    accept,
    accept_each,
    ended,
    hasty_worker,
    seen,
    transform,
    until,
    webhook,
    working,
)
from tests.stacks import eventually

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("short_periods")]

# Point 5

EXECUTION = "shift"
DEATHS = {
    "models.runs.run_work:claim": ("shift", [[]]),
    "models.runs.own_runs:hand_over": ("workflow", [[]]),
    "temporal.starts:start_run": ("workflow", [[], ["/one"], ["/one", "/two"]]),
    "models.runs.run_writes:record_changes_if_claimed": ("shift", [["/one"]]),
}
"""Functions after which a worker dies: how it takes runs forward, and what may have been called before."""


@pytest.mark.parametrize(
    "after", DEATHS, ids=["after its claim", "after its hand-over", "after the start", "after its write"]
)
async def test_a_worker_that_dies_leaves_its_run_to_the_next(
    open_settings: Settings,
    client: Client,
    database: Database,
    keyring: Keyring,
    new_target: NewTarget,
    receiver: Endpoint,
    after: str,
) -> None:
    steps = [webhook(f"{receiver.url}/{name}", name) for name in ("one", "two")]
    target = await new_target([*steps, transform("end", "'done'")])
    [run_id] = await accept(database, target)
    execution, called = DEATHS[after]
    with hasty_worker(open_settings, after, VEDETTE_EXECUTION=execution) as dying:
        await eventually(lambda: dying.exitcode is not None, 20, "the worker has died")
        assert dying.exitcode == -signal.SIGKILL
    # What was not written may be done again, and is told by its id; it begins before the start is over.
    assert receiver.paths in called
    async with working(open_settings, client, database, keyring) as notifier:
        assert (await ended(database, notifier, target.account_id, run_id)).output == "done"
    times = Counter(receiver.paths)
    assert set(times) == {"/one", "/two"} and max(times.values()) <= 2
    assert len({request["headers"]["webhook-id"] for request in receiver.requests}) == 2
    if after == "models.runs.run_writes:record_changes_if_claimed":
        assert times == {"/one": 1, "/two": 1}


# Point 6


@pytest.mark.executions("shift", "workflow")
async def test_a_killed_worker_leaves_what_it_has_done(
    open_settings: Settings,
    client: Client,
    database: Database,
    keyring: Keyring,
    new_target: NewTarget,
    receiver: Endpoint,
) -> None:
    each = {**webhook(receiver.url + "/{{ item }}", "each"), "for_each": "trigger"}
    target = await new_target([each, transform("end", "length(each)")])
    [run_id] = await accept(database, target, 1, ["held", *(str(n) for n in range(9))])

    async def nine_stored() -> bool:
        async with database.connection() as connection:
            cursor = await connection.execute(
                "select count(*) as n from run_step_items where run_id = %s", (run_id,)
            )
            row = await cursor.fetchone()
        return row is not None and row["n"] == 9

    with hasty_worker(open_settings) as killed:
        await until(nine_stored)
        killed.kill()
    receiver.open.set()
    async with working(open_settings, client, database, keyring) as notifier:
        view = await ended(database, notifier, target.account_id, run_id, 60)
    assert (view.status, view.output) == ("completed", 10)
    calls = Counter(request["path"] for request in receiver.requests)
    assert calls.pop("/held") == 2 and set(calls.values()) == {1} and len(calls) == 9
    assert len({request["headers"]["webhook-id"] for request in receiver.requests}) == 10


# A worker that is killed at every boundary of ten steps at once


KINDS = [
    "call", "lookup", "call", "condition", "items", "call", "delay", "call", "transform", "call",
]  # fmt: skip
HELD = {"call", "items"}
"""What the receiver can hold; the other kinds but a delay are over at once."""


def step(url: str, number: int, kind: str) -> dict[str, Any]:
    """The step of a kind; the receiver sees `/<run>/<step>` or `/<run>/<step>/<item>`."""
    name, path = f"s{number}", f"{url}/{{{{ trigger.run }}}}/{number}"
    match kind:
        case "lookup":
            return {"id": name, "type": "ip_lookup", "config": {"field": "trigger.ip"}}
        case "condition":
            return {"id": name, "type": "condition", "config": {"expression": "trigger.run >= `0`"}}
        case "items":
            return {**webhook(f"{path}/{{{{ item }}}}", name, timeout=60), "for_each": "[0, 1, 2]"}
        case "delay":
            return {"id": name, "type": "delay", "config": {"until": f"{{{{ s{number - 1}.body.until }}}}"}}
        case "transform":
            return transform(name, "trigger.run")
        case _:
            return webhook(path, name, timeout=60)


def held_paths(run: int) -> set[str]:
    """What the receiver holds of a run: the step of its number, or the next if that is over at once."""
    if KINDS[run] == "delay":
        return set()
    number = run if KINDS[run] in HELD else run + 1
    path = f"/{run}/{number}"
    return {f"{path}/{item}" for item in range(3)} if KINDS[number] == "items" else {path}


HELD_PATHS = {path for run in range(len(KINDS)) for path in held_paths(run)}
PAUSING = KINDS.index("delay")


async def all_held(receiver: Endpoint) -> bool:
    return HELD_PATHS <= set(receiver.paths)


async def hold(request: web.Request, receiver: Endpoint) -> web.Response:
    """Answers with the number of the step, and until when the next one is to wait if it is a delay."""
    _, run, number, *_ = request.path.split("/")
    if request.path in HELD_PATHS:
        await receiver.open.wait()
    pause = timedelta()
    if (int(run), int(number) + 1) == (PAUSING, PAUSING):
        await until(lambda: all_held(receiver), 60)
        pause = timedelta(seconds=6)
    return web.json_response({"step": int(number), "until": (datetime.now(UTC) + pause).isoformat()})


async def test_a_run_goes_on_at_whichever_step_its_worker_is_killed(
    open_settings: Settings, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    """Ten runs of ten steps: when the worker is killed, the k-th run is within its k-th step.

    Where that step is over at once, the run is within the next: what was done before it is not stored yet
    if the workflow did it by itself.
    """
    receiver.handler = lambda request: hold(request, receiver)
    steps = [step(receiver.url, number, kind) for number, kind in enumerate(KINDS)]
    calls = [f"s{number}.body.step" for number, kind in enumerate(KINDS) if kind == "call"]
    steps.append(transform("end", f"[{', '.join(calls)}, s1.asn.asn, s3.result, s4[].body.step, s8]"))
    target = await new_target(steps)
    # At once, so that some of them are claimed together.
    ids = await accept_each(database, target, [{"run": n, "ip": "8.8.8.8"} for n in range(len(KINDS))])
    account_id = target.account_id
    with hasty_worker(open_settings) as killed:
        await seen(
            database, account_id, ids[PAUSING], lambda view: view.steps[PAUSING].status == "waiting", 60
        )
        await until(lambda: all_held(receiver), 60)
        killed.kill()
    receiver.open.set()
    with hasty_worker(open_settings):
        views = [
            await seen(database, account_id, run_id, lambda view: view.completed_at is not None, 60)
            for run_id in ids
        ]
    numbers = [number for number, kind in enumerate(KINDS) if kind == "call"]
    outputs = [[*numbers, 15169, True, [4, 4, 4], n] for n in range(len(KINDS))]
    assert [(view.status, view.output) for view in views] == [("completed", one) for one in outputs]
    assert {step.status for view in views for step in view.steps} == {"completed"}
    call_ids = {request["headers"]["webhook-id"] for request in receiver.requests}
    times = Counter(receiver.paths)
    assert len(call_ids) == len(times) == len(KINDS) * (len(numbers) + 3)
    # All other calls were over, and the next steps begun: what was over was stored before.
    assert {path for path, count in times.items() if count == 2} == HELD_PATHS
    assert set(times.values()) == {1, 2}
