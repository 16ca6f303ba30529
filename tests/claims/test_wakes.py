"""Who is woken: a run that is at work when something comes for it; a worker, when runs are queued."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from database import Database
from engine.calls import Call
from execution.executor import parse_ids
from execution.step_answers import StepAnswers
from language.steps import WaitStep
from models.identifiers import new_id
from models.runs import resumption, shifts
from models.runs.runs import worker_channel
from notifications import Listener
from settings import Settings
from tests.automations.engine import until
from tests.claims.conftest import NewRuns


async def test_what_comes_for_one_step_wakes_the_run_though_another_is_looked_for_after_it(
    database: Database, new_runs: NewRuns
) -> None:
    run_id, _ = (await new_runs([{}])).only
    unused: Any = None
    answering = StepAnswers(database, unused, unused, Settings())

    async def collect(step_id: str) -> bool:
        step = WaitStep.model_validate({"id": step_id, "type": "wait"})
        call = Call("collect", step, 1, {}, (), datetime.now(UTC))
        return not (await answering.collect(run_id, call, {})).pending

    assert not await collect("a")
    async with database.transaction() as connection:
        await resumption.resume(connection, run_id, "a", "for a")
    assert not await collect("b")
    async with database.connection() as connection:
        cursor = await connection.execute("select woken from run_work where run_id = %s", (run_id,))
        assert await cursor.fetchone() == {"woken": True}


async def test_only_a_worker_that_lives_and_has_room_is_woken(database: Database) -> None:
    """A halted one says that it is unfit; a dead one beats no more."""
    living, halted, dead = [await new_worker(database, room) for room in (3, shifts.UNFIT, 1000)]
    heard: list[str] = []
    channels = {
        worker_channel(one): lambda _, one=one: heard.append(str(one)) for one in (living, halted, dead)
    }
    channels["end"] = heard.append
    listener = Listener(database)
    listener.add(channels)
    async with database.connection() as connection:
        await connection.execute(
            "update shifts set beat_at = now() - interval '5 seconds' where worker_id = %s", (dead,)
        )
    listener.start()
    await listener.connected.wait()
    async with database.connection() as connection:
        for _ in range(20):
            await connection.execute("select notify_1(array['runs_queued'], array[''])")
        await connection.execute("select pg_notify('end', 'end')")

    async def is_over() -> bool:
        return heard[-1:] == ["end"]

    await until(is_over)
    await listener.stop()
    assert set(heard[:-1]) == {str(living)}


async def test_a_worker_that_is_woken_is_told_whose_runs_were_queued(database: Database) -> None:
    """As many as a notification has room for: it is a hint."""
    accounts = [new_id() for _ in range(300)]
    heard: list[str] = []
    async with database.connection() as connection:
        await connection.execute("delete from shifts")
    listener = Listener(database)
    listener.add({worker_channel(await new_worker(database, 3)): heard.append})
    listener.start()
    await listener.connected.wait()
    async with database.connection() as connection:
        await connection.execute(
            "select notify_1(array_fill('runs_queued'::text, array[301]), %s::text[])",
            ([*map(str, accounts), ""],),
        )

    async def is_told() -> bool:
        return bool(heard)

    await until(is_told)
    await listener.stop()
    assert parse_ids(heard[0]) == accounts[:200]
    # A payload that is passed on joins others, and may be cut within an id.
    assert parse_ids(f"{heard[0]},{accounts[0]}"[:-1]) == accounts[:200]


async def new_worker(database: Database, room: int) -> UUID:
    worker_id, shift_id = new_id(), new_id()
    async with database.connection() as connection:
        await shifts.begin(connection, shift_id, worker_id)
        await shifts.beat(connection, shift_id, room, {})
    return worker_id
