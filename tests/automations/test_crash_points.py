"""Processes, Postgres and Temporal that are killed, stopped or silent, and what users see of it.

What they see: whatever was accepted ends, no step is recorded twice, and a webhook is repeated only under its
id. The other points are listed in test_dispatch_points; what happens between a write's snapshot and its
commit is in tests/claims, what a worker leaves that dies is in test_killed_workers.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from psycopg.types.json import Json

from database import Database
from embedded.postgres import Postgres
from embedded.temporal import Temporal
from models.accounts import secrets
from models.audit import Actor
from models.automations.run_targets import RunTarget
from models.runs import low_water, setbacks, shifts
from models.runs.low_water import LowWater
from models.runs.run_work import Claim
from models.runs.runs import QUEUED_CHANNEL, RunView
from sealing import Keyring
from settings import Settings
from tests.automations.claims import claim, let_pass, runs_of
from tests.automations.engine import (
    Endpoint,
    NewAccount,
    NewTarget,
    Work,
    accept,
    ended,
    hasty_worker,
    process,
    requested,
    seen,
    send_signal,
    transform,
    until,
    waiting,
    webhook,
)
from tests.stacks import eventually
from tests.views import get_run

pytestmark = pytest.mark.long

EXECUTION = "shift"


def ids_by_path(receiver: Endpoint) -> dict[str, set[str]]:
    """Under which webhook-ids each path was asked for."""
    found: dict[str, set[str]] = {}
    for request in receiver.requests:
        found.setdefault(request["path"], set()).add(request["headers"]["webhook-id"])
    return found


def waits_for(seconds: float) -> dict[str, Any]:
    return {"id": "wait", "type": "delay", "config": {"seconds": seconds}}


async def view_of(database: Database, target: RunTarget, run_id: UUID) -> RunView:
    async with database.connection() as connection:
        return await get_run(connection, target.account_id, run_id)


# Worker processes

FROZEN_SECONDS = 100
"""The server goes on handing tasks to a process that is stopped, whose polls stay open for a minute."""


@pytest.mark.executions("shift", "workflow")
@pytest.mark.usefixtures("short_periods")
async def test_a_stopped_executor_that_goes_on_later_does_nothing_more_with_what_another_has_taken_over(
    open_settings: Settings, at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    async def hold(request: web.Request) -> web.Response:
        number = len(receiver.requests)
        if request.path == "/held":
            await receiver.open.wait()
        return web.json_response(number)

    receiver.handler = hold
    steps = [webhook(f"{receiver.url}/held", timeout=60), webhook(f"{receiver.url}/next", "next")]
    target = await new_target([*steps, transform("end", "call.body")])
    with hasty_worker(open_settings) as stopped:
        [run_id] = await accept(database, target)
        await requested(receiver, 1)
        send_signal(stopped, signal.SIGSTOP)
        async with at_work() as notifier:
            await requested(receiver, 2, FROZEN_SECONDS)
            receiver.open.set()
            view = await ended(database, notifier, target.account_id, run_id)
            send_signal(stopped, signal.SIGCONT)
            # What it had waited for has been answered long ago: it goes on with that, then stops.
            send_signal(stopped, signal.SIGTERM)
            await eventually(lambda: stopped.exitcode is not None, 60, "the stopped worker has ended")
    assert stopped.exitcode == 0
    assert (view.status, view.output) == ("completed", view.steps[0].output["body"])
    assert await view_of(database, target, run_id) == view
    assert Counter(receiver.paths) == {"/held": 2, "/next": 1}
    assert {path: len(ids) for path, ids in ids_by_path(receiver).items()} == {"/held": 1, "/next": 1}


@pytest.mark.usefixtures("short_periods")
async def test_a_worker_that_is_stopped_for_a_while_goes_on_where_nobody_else_is(
    open_settings: Settings, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    steps = [webhook(f"{receiver.url}/held", timeout=60), webhook(f"{receiver.url}/next", "next")]
    target = await new_target(steps)
    with hasty_worker(open_settings) as stopped:
        [run_id] = await accept(database, target)
        await requested(receiver, 1)
        send_signal(stopped, signal.SIGSTOP)
        await until(lambda: is_silent(database, run_id))
        receiver.open.set()
        send_signal(stopped, signal.SIGCONT)
        await seen(database, target.account_id, run_id, lambda view: view.status == "completed", 60)
    assert receiver.paths.count("/next") == 1
    assert all(len(ids) == 1 for ids in ids_by_path(receiver).values())


async def is_silent(database: Database, run_id: UUID) -> bool:
    """Return whether the worker of a run has been silent for so long that others would end its shift."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select s.beat_at < now() - make_interval(secs => %s) as silent"
            " from run_work w join shifts s on s.id = w.carrier where w.run_id = %s",
            (shifts.SILENT_SECONDS + 1, run_id),
        )
        row = await cursor.fetchone()
    return row is not None and row["silent"]


async def test_a_worker_that_is_stopped_within_its_claim_holds_nobody_up(
    open_settings: Settings, at_work: Work, database: Database, new_target: NewTarget
) -> None:
    target, other = await new_target([transform("end", "'done'")]), await new_target()

    async def begun() -> Any:
        async with database.connection() as looking:
            cursor = await looking.execute("select id from shifts where room > 0 order by id desc limit 1")
            return await cursor.fetchone()

    async def claims_now() -> bool:
        async with database.connection() as looking:
            cursor = await looking.execute(
                "select 1 from pg_stat_activity where datname = current_database()"
                " and application_name = 'vedette claims' and wait_event_type = 'Lock'"
                " and query like '%claim_runs%'"
            )
            return await cursor.fetchone() is not None

    async with database.connection() as connection:
        await connection.execute("delete from shifts")
    with process(open_settings, "cli", "worker") as stopped:
        shift = await until(begun)
        async with database.transaction() as connection:
            # Each claim waits for this row.
            await connection.execute("select from shifts where id = %s for update", (shift["id"],))
            [run_id] = await accept(database, target)
            await until(claims_now)
            send_signal(stopped, signal.SIGSTOP)
        [quick] = await accept(database, other)
        async with at_work() as notifier:
            # Sooner than any shift is ended.
            assert (await ended(database, notifier, other.account_id, quick, 8)).status == "completed"
            view = await ended(database, notifier, target.account_id, run_id, FROZEN_SECONDS)
    assert view.output == "done"


@pytest.mark.executions("shift", "workflow")
@pytest.mark.usefixtures("short_periods")
async def test_runs_that_wait_go_on_though_their_worker_is_killed_meanwhile(
    open_settings: Settings, at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    target = await new_target(
        [webhook(f"{receiver.url}/before", "before"), waits_for(6), webhook(f"{receiver.url}/after", "after")]
    )
    with hasty_worker(open_settings) as killed:
        run_ids = await accept(database, target, 3)
        for run_id in run_ids:
            await waiting(database, target.account_id, run_id)
        killed.kill()
    async with at_work() as notifier:
        for run_id in run_ids:
            view = await ended(database, notifier, target.account_id, run_id, 60)
            assert view.status == "completed"
    assert Counter(receiver.paths) == {"/before": 3, "/after": 3}
    assert {path: len(ids) for path, ids in ids_by_path(receiver).items()} == {"/before": 3, "/after": 3}


# Postgres and Temporal


async def with_secret(
    database: Database, keyring: Keyring, new_account: NewAccount, new_target: NewTarget, url: str
) -> RunTarget:
    """A workflow whose first call needs a secret, which is read when it begins."""
    account_id = await new_account()
    async with database.transaction() as connection:
        await secrets.put_secret(
            connection, keyring, Actor(account_id, "system", name="test"), "TOKEN", "value"
        )
    headers = {"X-Key": "{{ secrets.TOKEN }}"}
    return await new_target(
        [webhook(url, headers=headers), transform("end", "'done'")], account_id=account_id
    )


@pytest.mark.executions("shift", "workflow")
async def test_runs_go_on_when_postgres_has_been_restarted(
    postgres: Postgres,
    at_work: Work,
    database: Database,
    keyring: Keyring,
    new_account: NewAccount,
    new_target: NewTarget,
    receiver: Endpoint,
) -> None:
    """Those that were within a call, those that wait, and those of accounts that come right after it."""
    held = await new_target([webhook(f"{receiver.url}/held"), webhook(f"{receiver.url}/next", "next")])
    waits = await new_target([waits_for(4), webhook(f"{receiver.url}/after", "after")])
    others = [
        await with_secret(database, keyring, new_account, new_target, f"{receiver.url}/secret")
        for _ in range(4)
    ]
    async with at_work() as notifier:
        [held_id], [waits_id] = await accept(database, held), await accept(database, waits)
        notifier.notify(QUEUED_CHANNEL)
        await requested(receiver, 1)
        await waiting(database, waits.account_id, waits_id)
        await postgres.stop()
        receiver.open.set()
        await postgres.start()
        await until(lambda: answers(database))
        expected = [(held, held_id), (waits, waits_id)]
        expected += [(target, (await accept(database, target))[0]) for target in others]
        for target, run_id in expected:
            view = await ended(database, notifier, target.account_id, run_id)
            assert view.status == "completed"
    assert Counter(receiver.paths) == {"/held": 1, "/next": 1, "/after": 1, "/secret": 4}


async def answers(database: Database) -> bool:
    try:
        async with database.connection() as connection:
            await connection.execute("select 1")
    except Exception:
        return False
    return True


async def test_a_call_that_finds_its_connection_dead_is_done_at_once_with_another(
    at_work: Work,
    database: Database,
    keyring: Keyring,
    new_account: NewAccount,
    new_target: NewTarget,
    receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is no fault of the run: that is not set aside."""
    target = await with_secret(database, keyring, new_account, new_target, receiver.url)
    read, broken = secrets.load_values, 0

    async def break_at_first(connection: Any, *arguments: Any) -> Any:
        nonlocal broken
        broken += 1
        if broken == 1:
            async with database.connection() as another:
                await another.execute("select pg_terminate_backend(%s, 5000)", (connection.info.backend_pid,))
        return await read(connection, *arguments)

    monkeypatch.setattr(secrets, "load_values", break_at_first)
    async with at_work() as notifier:
        [run_id] = await accept(database, target)
        assert (await ended(database, notifier, target.account_id, run_id)).output == "done"
    assert broken == 2 and len(receiver.requests) == 1


async def test_runs_go_on_while_temporal_is_silent_and_their_timers_afterwards(
    temporal_server: Temporal, at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    quick = await new_target([webhook(f"{receiver.url}/quick"), transform("end", "'done'")])
    waits = await new_target([waits_for(3), webhook(f"{receiver.url}/after", "after")])
    async with at_work() as notifier:
        [first] = await accept(database, quick)
        await ended(database, notifier, quick.account_id, first)
        pid = temporal_server.child.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            [run_id], [waits_id] = await accept(database, quick), await accept(database, waits)
            assert (await ended(database, notifier, quick.account_id, run_id)).output == "done"
            await waiting(database, waits.account_id, waits_id)
        finally:
            os.kill(pid, signal.SIGCONT)
        view = await ended(database, notifier, waits.account_id, waits_id)
    assert view.status == "completed"
    assert Counter(receiver.paths) == {"/quick": 2, "/after": 1}


@pytest.mark.executions("shift", "workflow")
async def test_runs_go_on_when_temporal_has_been_restarted(
    temporal_server: Temporal, at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    held = await new_target([webhook(f"{receiver.url}/held"), webhook(f"{receiver.url}/next", "next")])
    waits = await new_target([waits_for(5), webhook(f"{receiver.url}/after", "after")])
    async with at_work() as notifier:
        [held_id], [waits_id] = await accept(database, held), await accept(database, waits)
        notifier.notify(QUEUED_CHANNEL)
        await requested(receiver, 1)
        await waiting(database, waits.account_id, waits_id)
        await temporal_server.stop()
        await temporal_server.start()
        receiver.open.set()
        for target, run_id in ((held, held_id), (waits, waits_id)):
            assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
    assert Counter(receiver.paths) == {"/held": 1, "/next": 1, "/after": 1}


# Rows

LATE = {
    "committed a moment after one that was claimed": (timedelta(seconds=2), {}),
    "half a minute after it": (timedelta(seconds=30), {"_LONG_SECONDS": 0.0}),
    "longer than any mark trails": (timedelta(hours=1), {"_USED_SECONDS": 0.0}),
}


@pytest.mark.parametrize("case", LATE)
async def test_a_run_that_is_committed_late_is_claimed(
    database: Database,
    new_target: NewTarget,
    nothing_waits: None,
    monkeypatch: pytest.MonkeyPatch,
    case: str,
) -> None:
    """Its time is before that of runs that were claimed: its transaction took so long."""
    age, constants = LATE[case]
    for name, value in constants.items():
        monkeypatch.setattr(low_water, name, value)
    target, marks = await new_target(), LowWater()
    marks.note_read(10_000, 1)
    await accept(database, target)
    first = await claim(database)
    assert isinstance(first, Claim)
    marks.note(first)
    [late] = await accept(database, target)
    async with database.connection() as connection:
        await connection.execute(
            "update run_work set available_at = now() - %s::interval where run_id = %s", (age, late)
        )
    found = await claim(database, marks=marks.marks())
    assert isinstance(found, Claim) and [run.run_id for run in runs_of(found)] == [late]


@pytest.mark.executions("shift", "workflow")
async def test_a_secret_that_cannot_be_opened_fails_its_own_step_alone(
    at_work: Work,
    database: Database,
    keyring: Keyring,
    new_account: NewAccount,
    new_target: NewTarget,
    receiver: Endpoint,
) -> None:
    corrupt, sound = [
        await with_secret(database, keyring, new_account, new_target, receiver.url) for _ in range(2)
    ]
    async with database.connection() as connection:
        await connection.execute(
            "update secrets set sealed = set_byte(sealed, 20, 255 - get_byte(sealed, 20))"
            " where account_id = %s",
            (corrupt.account_id,),
        )
    async with at_work() as notifier:
        [bad], [good] = await accept(database, corrupt), await accept(database, sound)
        failed = await ended(database, notifier, corrupt.account_id, bad)
        assert (await ended(database, notifier, sound.account_id, good)).output == "done"
    assert failed.error is not None and failed.error["code"] == "secret_not_opened"
    assert len(receiver.requests) == 1
    async with database.connection() as connection:
        assert await setbacks.count_aside(connection) == 0


async def test_what_a_later_version_has_written_is_set_aside_unharmed_and_goes_on_when_it_is_readable(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    """As after a roll-back: nothing of the run is lost, and nobody else is held up."""
    target = await new_target(
        [
            webhook(f"{receiver.url}/before", "before"),
            waits_for(3600),
            webhook(f"{receiver.url}/after", "after"),
        ]
    )
    other = await new_target([transform("end", "'done'")])
    async with at_work() as notifier:
        [run_id] = await accept(database, target)
        notifier.notify(QUEUED_CHANNEL)
        await waiting(database, target.account_id, run_id)
        await let_pass(database, run_id, timedelta(hours=1))
        readable = await row_of(database, run_id)
        later = {**readable["progress"], "version": 1_000, "unheard": "of"}
        await change(database, run_id, progress=Json(later), status="queued", carrier=None, claim_id=None)
        notifier.notify(QUEUED_CHANNEL)

        async def is_aside() -> bool:
            return (await row_of(database, run_id))["setbacks"] is not None

        await until(is_aside)
        row = await row_of(database, run_id)
        assert (row["status"], row["progress"]) == ("queued", later)
        assert (await view_of(database, target, run_id)).status == "queued"
        [good] = await accept(database, other)
        assert (await ended(database, notifier, other.account_id, good)).output == "done"
        await change(database, run_id, progress=Json(readable["progress"]), available_at="now")
        assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
    assert receiver.paths == ["/before", "/after"]


async def row_of(database: Database, run_id: UUID) -> dict[str, Any]:
    async with database.connection() as connection:
        cursor = await connection.execute("select * from run_work where run_id = %s", (run_id,))
        row = await cursor.fetchone()
    assert row is not None
    return row


async def change(database: Database, run_id: UUID, **values: Any) -> None:
    columns = ", ".join(f"{name} = %s" for name in values)
    async with database.connection() as connection:
        query: Any = f"update run_work set {columns} where run_id = %s"
        await connection.execute(query, [*values.values(), run_id])
