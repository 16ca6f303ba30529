"""Writes that wait, or whose reply is lost: points 7 and 9 of test_dispatch_points."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest
from aiohttp import web
from psycopg.sql import SQL, Identifier
from temporalio.client import Client

from database import Connection, Database
from models.runs import cancellation, run_writes
from models.runs.run_writes import Change, End, Wait, WriteResult
from models.runs.runs import QUEUED_CHANNEL
from sealing import Keyring
from settings import Settings
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    Work,
    accept,
    cancel,
    ended,
    requested,
    statuses,
    transform,
    until,
    webhook,
    working,
)
from tests.views import get_run

pytestmark = pytest.mark.long

EXECUTION = "shift"
Do = Callable[[], Awaitable[WriteResult]]
AroundWrites = Callable[[Callable[[list[Change], Do], Awaitable[WriteResult]]], None]


@pytest.fixture
def around_writes(monkeypatch: pytest.MonkeyPatch) -> AroundWrites:
    """Has something stand around every write of runs."""

    def stand(around: Callable[[list[Change], Do], Awaitable[WriteResult]]) -> None:
        write = run_writes.record_changes_if_claimed

        async def written(connection: Connection, changes: list[Change], *announce: Any) -> WriteResult:
            return await around(changes, lambda: write(connection, changes, *announce))

        monkeypatch.setattr(run_writes, "record_changes_if_claimed", written)

    return stand


class ReplyLost(psycopg.OperationalError):
    """The connection has broken after the commit."""


@pytest.mark.executions("shift", "workflow")
@pytest.mark.parametrize(("table", "requests"), [("run_work", 1), ("runs", 2), ("run_steps", 1)])
async def test_who_waits_for_the_database_is_not_lost_and_does_not_call_again(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint, table: str, requests: int
) -> None:
    """For longer than the writer waits for a lock."""
    target = await new_target([webhook(f"{receiver.url}/held"), webhook(receiver.url, "next")])
    [run_id] = await accept(database, target)

    seen: set[Any] = set()

    async def refused() -> bool:
        """A second statement waits: the first was given up."""
        async with database.connection() as looking:
            cursor = await looking.execute(
                "select query_start from pg_stat_activity where datname = current_database()"
                " and application_name = 'vedette writer' and wait_event_type = 'Lock'"
            )
            seen.update(row["query_start"] for row in await cursor.fetchall())
        return len(seen) > 1

    async with at_work() as notifier:
        notifier.notify(QUEUED_CHANNEL)
        await requested(receiver, 1)
        async with database.transaction() as connection:
            await connection.execute(SQL("lock table {} in exclusive mode").format(Identifier(table)))
            receiver.open.set()
            await until(refused)
            assert len(receiver.requests) == requests
        view = await ended(database, notifier, target.account_id, run_id)
    assert (view.status, receiver.paths) == ("completed", ["/held", "/"])


@pytest.mark.executions("shift", "workflow")
async def test_an_answer_that_cannot_be_stored_at_once_is_stored_later_and_not_asked_for_again(
    open_settings: Settings,
    client: Client,
    database: Database,
    keyring: Keyring,
    new_target: NewTarget,
    receiver: Endpoint,
) -> None:
    """As when Postgres restarts in that moment: all the connections of the worker are gone."""

    def answer(_: dict[str, Any]) -> web.Response:
        with psycopg.connect(database.url, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()"
                " and application_name in ('doomed', 'vedette writer')"
            )
        return web.json_response("answered")

    receiver.answer = answer
    target = await new_target([webhook(receiver.url), transform("end", "call.body")])
    [run_id] = await accept(database, target)
    doomed = Database(database.url, name="doomed")
    await doomed.open()
    try:
        async with working(open_settings, client, doomed, keyring) as notifier:
            view = await ended(database, notifier, target.account_id, run_id)
    finally:
        await doomed.close()
    assert (view.status, view.output, len(receiver.requests)) == ("completed", "answered", 1)


@pytest.mark.executions("shift", "workflow")
@pytest.mark.parametrize("items", [False, True], ids=["a step", "items"])
async def test_what_is_committed_is_not_done_again(
    at_work: Work,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    around_writes: AroundWrites,
    items: bool,
) -> None:
    lost = False

    async def lose_the_first_reply(changes: list[Change], do: Do) -> WriteResult:
        nonlocal lost
        written = await do()
        if not lost and any(change.records for change in changes):
            lost = True
            raise ReplyLost
        return written

    around_writes(lose_the_first_reply)
    receiver.answer = lambda request: web.json_response(len(receiver.requests))
    step = webhook(receiver.url) | ({"for_each": "trigger", "max_concurrency": 2} if items else {})
    target = await new_target([step, transform("read", "call"), webhook(f"{receiver.url}/next", "next")])
    [run_id] = await accept(database, target, 1, [1, 2, 3])
    async with at_work() as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
    assert lost and view.status == "completed" and view.steps[1].output == view.steps[0].output
    assert len(receiver.requests) == (4 if items else 2)


@pytest.mark.executions("shift", "workflow")
@pytest.mark.parametrize("how", ["its reply lost", "cancelled afterwards"])
async def test_a_run_that_has_ended_stays_as_it_ended(
    at_work: Work, database: Database, new_target: NewTarget, around_writes: AroundWrites, how: str
) -> None:
    ends, again = 0, asyncio.Event()

    async def end_twice(changes: list[Change], do: Do) -> WriteResult:
        nonlocal ends
        written = await do()
        if any(isinstance(change.then, End) for change in changes):
            ends += 1
            if ends > 1:
                again.set()
            if how == "its reply lost" and ends == 1:
                raise ReplyLost
        return written

    around_writes(end_twice)
    target = await new_target([transform("end", "'done'")])
    [run_id] = await accept(database, target)
    async with at_work() as notifier:
        first = await ended(database, notifier, target.account_id, run_id)
        if how == "its reply lost":
            async with asyncio.timeout(10):
                await again.wait()
        else:
            await cancel(database, notifier, target.account_id, run_id)
    async with database.connection() as connection:
        assert await get_run(connection, target.account_id, run_id) == first
    assert (first.status, first.output) == ("completed", "done")


@pytest.mark.parametrize("when", ["before it", "after it", "after it, its reply lost"])
async def test_a_run_can_be_cancelled_while_it_leaves_for_a_long_delay(
    at_work: Work,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    around_writes: AroundWrites,
    when: str,
) -> None:
    times = 0

    async def cancel_while_leaving(changes: list[Change], do: Do) -> WriteResult:
        nonlocal times
        if times or not any(isinstance(one.then, Wait) and one.then.leaves for one in changes):
            return await do()
        times += 1
        if when == "before it":
            await cancel(database, notifier, target.account_id, run_id)
            return await do()
        written = await do()
        await cancel(database, notifier, target.account_id, run_id)
        if when != "after it":
            raise ReplyLost
        return written

    around_writes(cancel_while_leaving)
    wait = {"id": "wait", "type": "delay", "config": {"days": 30}}
    target = await new_target([wait, webhook(receiver.url, "after")])
    [run_id] = await accept(database, target)
    async with at_work() as notifier:
        await ended(database, notifier, target.account_id, run_id)
    # What was under way is appended.
    async with database.connection() as connection:
        view = await get_run(connection, target.account_id, run_id)
    assert times == 1 and view.status == "cancelled"
    assert statuses(view) == {"wait": "cancelled", "after": "skipped"} and receiver.requests == []


@pytest.mark.executions("shift", "workflow")
async def test_what_was_done_at_the_moment_of_a_cancel_is_kept(
    at_work: Work,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    around_writes: AroundWrites,
) -> None:
    async def cancel_before(changes: list[Change], do: Do) -> WriteResult:
        async with database.connection() as connection:
            await cancellation.cancel(connection, target.account_id, run_id)
        return await do()

    around_writes(cancel_before)
    target = await new_target([webhook(receiver.url), webhook(receiver.url, "next")])
    [run_id] = await accept(database, target)
    async with at_work() as notifier:
        await ended(database, notifier, target.account_id, run_id)
    async with database.connection() as connection:
        view = await get_run(connection, target.account_id, run_id)
    assert (view.status, statuses(view)["call"]) == ("cancelled", "completed")
    assert len(receiver.requests) == 1
