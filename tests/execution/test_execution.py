"""A batch in the hands of its executors, over a real database: every run comes to what it comes to alone."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from activities.execution import Done, Execution, HeldLease
from database import Connection, Database
from engine.calls import Call, JSONObject
from engine.driver import Driver
from engine.plan import Plan
from engine.state import RunInput
from language.definition import Definition
from language.progress import read_progress
from language.records import INLINE_BYTES
from micro_batcher import MicroBatcher
from models import answers, leases, run_loading
from models.identifiers import new_id
from models.leases import Lease
from models.run_writes import Change, record_changes_if_leased
from tests.engine.definitions import definitions, payloads
from tests.engine.world import NAMESPACE, START, World, outcome_of
from tests.leases.conftest import NewBatch

_ROWS = 16


@dataclass
class FastClock:
    """Whoever sleeps moves it."""

    moment: datetime = START

    def now(self) -> datetime:
        return self.moment

    async def sleep_until(self, moment: datetime) -> None:
        await asyncio.sleep(0)
        self.moment = max(self.moment, moment)


class _Asked(NamedTuple):
    run_id: UUID
    step_id: str
    item: int | None


@dataclass
class Hands:
    """Executors of one batch, of which any may stall or die while another takes over.

    Attributes:
        pending: what was asked for that others bring.
        come: what has come of that.
        live: by run, who has it last.
    """

    database: Database
    batch_id: UUID
    plan: Plan
    name: str
    chance: random.Random
    names: dict[UUID, UUID]
    clock: FastClock = field(default_factory=FastClock)
    pending: set[_Asked] = field(default_factory=set[_Asked])
    come: set[_Asked] = field(default_factory=set[_Asked])
    live: dict[UUID, Execution] = field(default_factory=dict[UUID, Execution])

    async def run_to_the_end(self) -> None:
        writer = MicroBatcher(self._write_many, most=256, in_flight=2)
        for _ in range(1000):
            if not await self._wake():
                return
            executors: list[asyncio.Task[Any]] = []
            for _ in range(self.chance.choice([1, 1, 2, 3])):
                executors += await self._take_up(writer)
                for _ in range(self.chance.randrange(60)):
                    await asyncio.sleep(0)
                await self._bring()
                if self.chance.random() < 0.5:
                    # Some die; the others go on, and do not know that they are late.
                    for task in executors:
                        if self.chance.random() < 0.7:
                            task.cancel()
            found = await asyncio.gather(*executors, return_exceptions=True)
            assert {type(one) for one in found} <= {str, asyncio.CancelledError}, found
        raise AssertionError("it does not end")

    async def _wake(self) -> bool:
        """Let time pass until the first of what waits is due; false when no run is left."""
        await self._bring()
        async with self.database.connection() as connection:
            await connection.execute(
                "update run_work set status = 'running', woken = false, batch_id = %s"
                " where status = 'queued' and run_id = any(%s)",
                (self.batch_id, list(self.names)),
            )
            # Of whatever batch: a write of somebody who died may queue one just now.
            cursor = await connection.execute(
                "select status, wake_at from run_work where run_id = any(%s)", (list(self.names),)
            )
            rows = await cursor.fetchall()
            if all(row["status"] == "waiting" for row in rows) and rows:
                self.clock.moment = max(self.clock.moment, min(row["wake_at"] for row in rows))
            await connection.execute(
                "update run_work set status = 'running' where batch_id = %s and wake_at <= %s",
                (self.batch_id, self.clock.moment),
            )
        return bool(rows)

    async def _bring(self) -> None:
        """Bring some of what runs wait for from others, and wake these."""
        brought = {asked for asked in sorted(self.pending, key=str) if self.chance.random() < 0.5}
        self.pending -= brought
        self.come |= brought
        for run_id in sorted({asked.run_id for asked in brought}):
            async with self.database.connection() as connection:
                await answers.wake(connection, [run_id])
            self.live[run_id].look_again()

    async def _take_up(self, writer: MicroBatcher[Change, bool]) -> list[asyncio.Task[Any]]:
        async with self.database.connection() as connection:
            await connection.execute(
                "update batches set beat_at = '-infinity' where id = %s", (self.batch_id,)
            )
            taken = await leases.take_over(connection, self.batch_id, new_id())
            assert taken is not None
            return [self._begin(taken.lease, run, writer) for run in await self._loaded(connection)]

    async def _loaded(self, connection: Connection) -> list[RunInput]:
        runs = await run_loading.load_runs(connection, self.batch_id)
        read = [step.id for step in self.plan.steps]
        records = await run_loading.load_records(connection, [run.run_id for run in runs], read)
        return [
            RunInput(
                run.run_id, START, run.trigger, run.request, run.size, run.size > INLINE_BYTES,
                recorded.done(), recorded.items_done(), read_progress(run.progress),
            )
            for run in runs
            for recorded in (records.get(run.run_id, run_loading.Recorded()),)
        ]  # fmt: skip

    def _begin(self, lease: Lease, run: RunInput, writer: MicroBatcher[Change, bool]) -> asyncio.Task[Any]:
        driver = Driver(self.plan, run, {"id": str(NAMESPACE), "name": self.name})

        async def perform(call: Call) -> Done:
            values: JSONObject = {}
            if call.stored:
                async with self.database.connection() as connection:
                    values = await run_loading.load_values(connection, run.run_id, call.stored)
            for _ in range(self.chance.randrange(5)):
                await asyncio.sleep(0)
            asked = _Asked(run.run_id, call.step.id, call.item)
            outcome = outcome_of(self.names[run.run_id], call, values, come=asked in self.come)
            if outcome.pending:
                self.pending.add(asked)
            return Done(outcome)

        execution = Execution(HeldLease(lease), driver, perform, writer.submit, self.clock)
        self.live[run.run_id] = execution
        return asyncio.create_task(execution.run())

    async def _write_many(self, changes: list[Change]) -> list[bool | Exception]:
        async with self.database.connection() as connection:
            written = (await record_changes_if_leased(connection, changes)).runs
        return [change.run_id in written for change in changes]


async def outcomes(database: Database, definition: JSONObject, run_ids: list[UUID]) -> list[Any]:
    """What is stored of each run, as `World.outcome` tells it."""
    delays = [step["id"] for step in definition["steps"] if step["type"] == "delay"]
    found: list[Any] = []
    async with database.connection() as connection:
        for run_id in run_ids:
            cursor = await connection.execute("select status, error from runs where id = %s", (run_id,))
            run: Any = await cursor.fetchone()
            cursor = await connection.execute(
                "select step_id, status, error from run_steps where run_id = %s", (run_id,)
            )
            steps = {row["step_id"]: row for row in await cursor.fetchall()}
            values = await run_loading.load_values(connection, run_id, list(steps))
            told = {
                step_id: (row["status"], None if step_id in delays else values[step_id], row["error"])
                for step_id, row in steps.items()
            }
            found.append(((run["status"], run["error"]), told))
    return found


def alone(definition: JSONObject, payload: JSONObject, seed: int) -> Any:
    """What a run comes to by itself, without a database."""
    world = World(definition, payload, random.Random(seed))
    (status, error), steps, _ = world.outcome(world.run())
    told = {
        step_id: (how, output, why and why.model_dump(exclude_none=True))
        for step_id, (how, output, why, *_) in steps.items()
    }
    return (status, error and error.model_dump(exclude_none=True)), told


@settings(max_examples=40, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(definition=definitions(), seed=st.integers(0, 2**32))
async def test_a_batch_comes_to_the_same_whoever_dies_or_stalls(
    database: Database, new_batch: NewBatch, definition: JSONObject, seed: int
) -> None:
    batch = await new_batch(payloads(_ROWS))
    names = {
        run_id: World(definition, payload, random.Random(0)).run_id
        for run_id, payload in zip(batch.run_ids, payloads(_ROWS), strict=True)
    }
    plan = Plan(Definition.model_validate(definition))
    hands = Hands(database, batch.id, plan, definition["name"], random.Random(seed), names)
    await hands.run_to_the_end()
    found = await outcomes(database, definition, batch.run_ids)
    for payload, one in zip(payloads(_ROWS), found, strict=True):
        assert one == alone(definition, payload, seed), definition
