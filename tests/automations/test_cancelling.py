"""Runs that are cancelled at every point, by either carrier, and what becomes of those beside them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from aiohttp import web
from temporalio.client import Client, WorkflowFailureError

from database import Database
from models.runs import cancellation
from models.runs.run_views import RunView
from models.runs.runs import QUEUED_CHANNEL
from notifications import Notifier
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    accept,
    accept_each,
    cancel,
    ended,
    requested,
    run_workflow,
    statuses,
    transform,
    until,
    webhook,
)
from tests.views import get_run

pytestmark = pytest.mark.usefixtures("quick_watch", "short_periods")

Step = dict[str, Any]
AFTER = transform("after", "'never'")


async def held(request: web.Request, receiver: Endpoint) -> web.Response:
    """Answers `/before` at once, refuses `/refused` for now, and holds everything else."""
    if request.path not in ("/before", "/refused"):
        await receiver.open.wait()
    return web.json_response(request.path, status=503 if request.path == "/refused" else 200)


@pytest.mark.parametrize("execution", ["workflow", "shift"])
async def test_a_cancelled_run_ends_and_the_one_beside_it_goes_on(
    notifier: Notifier, database: Database, new_target: NewTarget, receiver: Endpoint, execution: str
) -> None:
    receiver.handler = lambda request: held(request, receiver)
    steps = [webhook(receiver.url + "/{{ trigger }}"), transform("end", "call.body")]
    target = await new_target(steps, execution=execution)
    unwanted, mate = await accept_each(database, target, ["unwanted", "mate"])
    notifier.notify(QUEUED_CHANNEL)
    await requested(receiver, 2)
    await cancel(database, notifier, target.account_id, unwanted)
    await shown(database, target.account_id, unwanted, {"call": "cancelled", "end": "skipped"})
    async with database.connection() as connection:
        assert (await get_run(connection, target.account_id, mate)).status == "running"
    receiver.open.set()
    view = await ended(database, notifier, target.account_id, mate)
    assert (view.status, view.output) == ("completed", "/mate")
    assert sorted(receiver.paths) == ["/mate", "/unwanted"]


async def shown(database: Database, account_id: UUID, run_id: UUID, expected: dict[str, str]) -> RunView:
    """The cancelled run, once what was under way in it has come to its end too."""

    async def look() -> RunView | None:
        async with database.connection() as connection:
            view = await get_run(connection, account_id, run_id)
        assert (view.status, view.error) == ("cancelled", None)
        return view if statuses(view) == expected else None

    return await until(look)


class Point(NamedTuple):
    """Where a run is when it is cancelled: in the step that `step` makes, after `calls`, once it is `status`.

    `left`: its carrier has let go of it.
    """

    step: Callable[[str], Step]
    status: str
    calls: list[str]
    left: bool = False


def delay(**config: float) -> Callable[[str], Step]:
    return lambda url: {"id": "it", "type": "delay", "config": config}


def call(path: str, seconds: float = 1, **fields: Any) -> Callable[[str], Step]:
    retry = {"initial_seconds": seconds, "max_seconds": 3600}
    return lambda url: {**webhook(url + path, "it"), "retry": retry, **fields}


ITEMS: dict[str, Any] = {"for_each": "[1, 2]", "max_concurrency": 1}
BOTH: dict[str, Any] = {"for_each": "[1, 2]"}
POINTS: dict[str, Point] = {
    "a call": Point(call("/held"), "running", ["/held"]),
    "an item": Point(call("/held", **ITEMS), "running", ["/held"]),
    "a backoff": Point(call("/refused", 1.9), "waiting", ["/refused"]),
    "a delay": Point(delay(seconds=2), "waiting", []),
    "a long backoff": Point(call("/refused", 3600), "waiting", ["/refused"], left=True),
    "items' long backoffs": Point(
        call("/refused", 3600, **BOTH), "waiting", ["/refused", "/refused"], left=True
    ),
    "a long delay": Point(delay(days=30), "waiting", [], left=True),
}


# A carrier that is never told learns it from its next write or beat; a short wait may end before that.
NAPS = ("a backoff", "a delay")
LOST = "the notification is lost"
CASES = [(where, told) for where in POINTS for told in ("told", LOST) if told != LOST or where not in NAPS]


@pytest.mark.parametrize("execution", ["workflow", "shift"])
@pytest.mark.parametrize(("where", "told"), CASES)
async def test_a_run_can_be_cancelled_anywhere_and_calls_nobody_afterwards(
    notifier: Notifier,
    client: Client,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    where: str,
    told: str,
    execution: str,
) -> None:
    point, asked = POINTS[where], list[web.Request]()

    async def handle(request: web.Request) -> web.Response:
        asked.append(request)
        return await held(request, receiver)

    receiver.handler = handle
    steps = [webhook(f"{receiver.url}/before", "before"), point.step(receiver.url), AFTER]
    target = await new_target(steps, execution=execution)
    [run_id] = await accept(database, target)
    notifier.notify(QUEUED_CHANNEL)
    await requested(receiver, 1 + len(point.calls))
    await until(lambda: has_come_to(database, target.account_id, run_id, point))
    beats = await beats_of_all(database)
    if told == "told":
        await cancel(database, notifier, target.account_id, run_id)
    else:
        async with database.connection() as connection:
            await cancellation.cancel(connection, target.account_id, run_id)
    if execution == "workflow":
        with contextlib.suppress(WorkflowFailureError):
            await (await run_workflow(client, run_id)).result()
    elif not point.left:
        await until(lambda: is_idle(database, beats))
    if point.status == "running":
        await until(lambda: is_hung_up(asked[-1]))
    receiver.open.set()
    expected = {"before": "completed", "it": "cancelled", "after": "skipped"}
    view = await shown(database, target.account_id, run_id, expected)
    assert view.completed_at and view.steps[1].started_at and view.steps[1].duration_ms is not None
    assert receiver.paths == ["/before", *point.calls]


async def has_come_to(database: Database, account_id: UUID, run_id: UUID, point: Point) -> bool:
    async with database.connection() as connection:
        view = await get_run(connection, account_id, run_id)
        cursor = await connection.execute("select status from run_work where run_id = %s", (run_id,))
        row: Any = await cursor.fetchone()
    return view.status == point.status and (row["status"] == "waiting") == point.left


async def is_hung_up(request: web.Request) -> bool:
    """Return whether who has asked waits for no answer any more."""
    return request.transport is None or request.transport.is_closing()


async def beats_of_all(database: Database) -> int:
    async with database.connection() as connection:
        cursor = await connection.execute("select sum(beats)::int as beats from shifts")
        row: Any = await cursor.fetchone()
    return row["beats"]


async def is_idle(database: Database, beats: int) -> bool:
    """Return whether the shift has had two beats since, and had no run at work at the second."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select sum(beats)::int as beats, sum(at_work) as at_work from shifts"
        )
        row: Any = await cursor.fetchone()
    return row["beats"] >= beats + 2 and not row["at_work"]
