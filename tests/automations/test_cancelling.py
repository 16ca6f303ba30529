"""Runs that are cancelled at every point, and what becomes of their batch mates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from aiohttp import web
from temporalio.client import Client

from database import Database, Notifier
from models import runs
from models.runs import QUEUED_CHANNEL
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    accept,
    accept_each,
    batch_workflow,
    cancel,
    ended,
    events_of,
    requested,
    statuses,
    transform,
    until,
    webhook,
)
from tests.automations.test_dispatcher import batch_of

Step = dict[str, Any]
AFTER = transform("after", "'never'")


async def held(request: web.Request, receiver: Endpoint) -> web.Response:
    """Answers `/before` at once, refuses `/refused` for now, and holds everything else."""
    if request.path not in ("/before", "/refused"):
        await receiver.open.wait()
    return web.json_response(request.path, status=503 if request.path == "/refused" else 200)


async def test_a_cancelled_row_ends_and_its_mate_at_work_goes_on(
    notifier: Notifier, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    receiver.handler = lambda request: held(request, receiver)
    target = await new_target([webhook(receiver.url + "/{{ trigger }}"), transform("end", "call.body")])
    unwanted, mate = await accept_each(database, target, ["unwanted", "mate"])
    notifier.notify(QUEUED_CHANNEL)
    await requested(receiver, 2)
    await cancel(client, database, target.account_id, unwanted)
    view = await ended(database, notifier, target.account_id, unwanted)
    assert view.status == "cancelled" and statuses(view) == {"call": "cancelled", "end": "skipped"}
    async with database.connection() as connection:
        assert not await runs.has_ended(connection, mate)
    receiver.open.set()
    view = await ended(database, notifier, target.account_id, mate)
    assert (view.status, view.output) == ("completed", "/mate")
    assert sorted(receiver.paths) == ["/mate", "/unwanted"]
    assert await batch_of(database, unwanted) == await batch_of(database, mate)


class Point(NamedTuple):
    """Where a run is when it is cancelled: in the step that `step` makes, after `calls`, once `reached`."""

    step: Callable[[str], Step]
    reached: Callable[[Client, Database, UUID], Awaitable[Any]]
    calls: list[str]


async def at_once(client: Client, database: Database, run_id: UUID) -> bool:
    return True


async def sleeps(client: Client, database: Database, run_id: UUID) -> bool:
    return bool(await events_of(await batch_workflow(client, database, run_id), "timer_started"))


async def is_parked(client: Client, database: Database, run_id: UUID) -> bool:
    async with database.connection() as connection:
        cursor = await connection.execute("select status from runs where id = %s", (run_id,))
        row = await cursor.fetchone()
    return row == {"status": "waiting"}


LATER = {"retry": {"initial_seconds": 250, "max_seconds": 250}}
MUCH_LATER = {"retry": {"initial_seconds": 3600, "max_seconds": 3600}}
POINTS: dict[str, Point] = {
    "a call": Point(lambda url: webhook(f"{url}/held", "it"), at_once, ["/held"]),
    "a call's backoff": Point(lambda url: webhook(f"{url}/refused", "it") | LATER, sleeps, ["/refused"]),
    "an item": Point(
        lambda url: {**webhook(f"{url}/held", "it"), "for_each": "[1, 2]", "max_concurrency": 1},
        at_once, ["/held"],
    ),
    "an item's backoff": Point(
        lambda url: {**webhook(f"{url}/refused", "it"), "for_each": "[1, 2]"} | LATER,
        sleeps, ["/refused", "/refused"],
    ),
    "a short nap": Point(lambda url: {"id": "it", "type": "delay", "config": {"seconds": 250}}, sleeps, []),
    "a long backoff": Point(
        lambda url: webhook(f"{url}/refused", "it") | MUCH_LATER, is_parked, ["/refused"]
    ),
    "an item's long backoff": Point(
        lambda url: {**webhook(f"{url}/refused", "it"), "for_each": "[1, 2]"} | MUCH_LATER,
        is_parked, ["/refused", "/refused"],
    ),
    "a long delay": Point(lambda url: {"id": "it", "type": "delay", "config": {"days": 30}}, is_parked, []),
}  # fmt: skip


@pytest.mark.parametrize("told", ["signalled", "the signal is lost"])
@pytest.mark.parametrize("where", POINTS)
async def test_a_run_can_be_cancelled_anywhere(
    notifier: Notifier,
    client: Client,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    where: str,
    told: str,
) -> None:
    point = POINTS[where]
    receiver.handler = lambda request: held(request, receiver)
    target = await new_target([webhook(f"{receiver.url}/before", "before"), point.step(receiver.url), AFTER])
    [run_id] = await accept(database, target)
    notifier.notify(QUEUED_CHANNEL)
    await requested(receiver, 1 + len(point.calls))
    await until(lambda: point.reached(client, database, run_id))
    if told == "signalled":
        await cancel(client, database, target.account_id, run_id)
    else:
        await cancel_without_a_signal(database, target.account_id, run_id)
    view = await ended(database, notifier, target.account_id, run_id)
    receiver.open.set()
    assert (view.status, view.error) == ("cancelled", None)
    assert statuses(view) == {"before": "completed", "it": "cancelled", "after": "skipped"}
    assert receiver.paths == ["/before", *point.calls]


async def cancel_without_a_signal(database: Database, account_id: UUID, run_id: UUID) -> None:
    """The process that cancels writes it, dies before it tells the batch, and six seconds pass."""
    async with database.transaction() as connection:
        await runs.cancel(connection, account_id, run_id)
        await connection.execute(
            "update runs set cancel_requested_at = cancel_requested_at - interval '6 seconds' where id = %s",
            (run_id,),
        )
