"""Runs in the hands of shifts, over a real database: every run comes to what it comes to alone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from database import Database
from engine.calls import Call, JSONObject
from engine.driver import Driver
from engine.plan import Plan
from engine.state import RunInput
from execution.run_execution import CallResult, Execution, RunClaim
from execution.run_recorder import RunRecorder
from execution.shift import HeldShift
from language.definition import Definition
from language.progress import read_progress
from language.records import INLINE_BYTES
from models.runs import run_loading, run_work, step_answers
from models.runs.claim_requests import ClaimRequest
from models.runs.run_work import Claim, ClaimedRun
from notifications import Notifier
from tests.automations.claims import lose, new_shift, runs_of
from tests.claims.conftest import NewRuns
from tests.engine.definitions import definitions, payloads
from tests.engine.world import NAMESPACE, START, World, new_room, outcome_of
from tests.execution.clocks import FastClock

_ROWS = 16


class _Asked(NamedTuple):
    run_id: UUID
    step_id: str
    item: int | None


@dataclass
class Hands:
    """Workers of which any may stall or die, while another takes its runs over.

    Attributes:
        shift_id: who has the runs now.
        pending: what was asked for that others bring.
        come: what has come of that.
        live: by run, who has it last.
    """

    database: Database
    writer: RunRecorder
    shift_id: UUID
    plan: Plan
    name: str
    chance: random.Random
    names: dict[UUID, UUID]
    clock: FastClock = field(default_factory=FastClock)
    pending: set[_Asked] = field(default_factory=set[_Asked])
    come: set[_Asked] = field(default_factory=set[_Asked])
    live: dict[UUID, Execution] = field(default_factory=dict[UUID, Execution])

    async def run_to_the_end(self) -> None:
        for _ in range(1000):
            if not await self._wake():
                return
            workers: list[asyncio.Task[Any]] = []
            for _ in range(self.chance.choice([1, 1, 2, 3])):
                workers += await self._take_up()
                for _ in range(self.chance.randrange(60)):
                    await asyncio.sleep(0)
                await self._bring()
                if self.chance.random() < 0.5:
                    # Some die; the others go on, and do not know that they are late.
                    for task in workers:
                        if self.chance.random() < 0.7:
                            task.cancel()
            found = await asyncio.gather(*workers, return_exceptions=True)
            assert {type(one) for one in found} <= {str, asyncio.CancelledError}, found
        raise AssertionError("it does not end")

    async def _wake(self) -> bool:
        """Let time pass until the first of what waits is due; false when no run is left."""
        await self._bring()
        mine = list(self.names)
        async with self.database.connection() as connection:
            cursor = await connection.execute(
                "select status, wake_at from run_work where run_id = any(%s)", (mine,)
            )
            rows = await cursor.fetchall()
            if all(row["status"] == "waiting" for row in rows) and rows:
                self.clock.moment = max(self.clock.moment, min(row["wake_at"] for row in rows))
            # As `wake_due` does by the clock of the database.
            await connection.execute(
                "update run_work set status = 'queued', wake_at = null, available_at = clock_timestamp()"
                " where status = 'waiting' and run_id = any(%s) and wake_at <= %s",
                (mine, self.clock.moment),
            )
            # What was lost alone is tried again later and later.
            await connection.execute(
                "update run_work set available_at = clock_timestamp()"
                " where status = 'queued' and run_id = any(%s) and available_at > clock_timestamp()",
                (mine,),
            )
        return bool(rows)

    async def _bring(self) -> None:
        """Bring some of what runs wait for from others, and wake these."""
        brought = {asked for asked in sorted(self.pending, key=str) if self.chance.random() < 0.5}
        self.pending -= brought
        self.come |= brought
        for run_id in sorted({asked.run_id for asked in brought}):
            async with self.database.connection() as connection:
                await step_answers.wake(connection, [run_id])
            self.live[run_id].recheck_answers()

    async def _take_up(self) -> list[asyncio.Task[Any]]:
        """End the shift that has the runs, and claim what is queued for another."""
        await lose(self.database, self.shift_id)
        # What was being written at that moment is a stray, which a sweep queues.
        async with self.database.connection() as connection:
            await run_work.queue_strays(connection)
        self.shift_id = await new_shift(self.database)
        runs: list[ClaimedRun] = []
        async with self.database.connection() as connection:
            for alone in (False, True):
                found = await run_work.claim(connection, self.shift_id, ClaimRequest(alone=alone))
                runs += runs_of(found) if isinstance(found, Claim) else []
            read = [step.id for step in self.plan.steps]
            records = await run_loading.load_records(connection, [run.run_id for run in runs], read)
        held = HeldShift(self.shift_id)
        return [self._begin(held, run, records.get(run.run_id, run_loading.Recorded())) for run in runs]

    def _begin(self, held: HeldShift, run: ClaimedRun, recorded: run_loading.Recorded) -> asyncio.Task[Any]:
        given = RunInput(
            run.run_id, START, run.trigger, run.request, run.size, run.size > INLINE_BYTES,
            recorded.parse_steps(), recorded.items_done(), read_progress(run.progress),
        )  # fmt: skip
        # The clock jumps while a call is under way, so that items one after the other would be due for ever.
        room = new_room(self.chance, 0.3, limits_calls=False)
        driver = Driver(self.plan, given, {"id": str(NAMESPACE), "name": self.name}, room)

        async def perform(call: Call) -> CallResult:
            values: JSONObject = {}
            if call.stored:
                async with self.database.connection() as connection:
                    values = await run_loading.load_values(connection, run.run_id, call.stored)
            for _ in range(self.chance.randrange(5)):
                await asyncio.sleep(0)
            asked = _Asked(run.run_id, call.step.id, call.item)
            outcome = outcome_of(self.names[run.run_id], call, values, come=asked in self.come)
            if outcome.pending and asked not in self.come:
                # What is pending although it has come waits for nobody but the clock.
                self.pending.add(asked)
            return CallResult(outcome)

        execution = Execution(held, RunClaim(run.claim_id), driver, perform, self.writer.write, self.clock)
        self.live[run.run_id] = execution
        return asyncio.create_task(execution.run())


async def outcomes(database: Database, definition: JSONObject, run_ids: list[UUID]) -> list[Any]:
    """Return what is stored of each run, as `World.outcome` tells it."""
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
    """Return what a run comes to by itself, without a database."""
    world = World(definition, payload, random.Random(seed))
    (status, error), steps, _ = world.outcome(world.run())
    told = {
        step_id: (how, output, why and why.model_dump(exclude_none=True))
        for step_id, (how, output, why, *_) in steps.items()
    }
    return (status, error and error.model_dump(exclude_none=True)), told


@pytest.fixture(scope="module")
async def writer(database: Database) -> AsyncGenerator[RunRecorder]:
    notifier = Notifier(database)
    notifier.start()
    opened = RunRecorder(database, notifier)
    await opened.database.open()
    yield opened
    await opened.database.close()
    await notifier.stop()


@settings(max_examples=40, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(definition=definitions(), seed=st.integers(0, 2**32))
async def test_runs_come_to_the_same_whichever_worker_dies_or_stalls(
    database: Database, writer: RunRecorder, new_runs: NewRuns, definition: JSONObject, seed: int
) -> None:
    carried = await new_runs(payloads(_ROWS))
    names = {
        run_id: World(definition, payload, random.Random(0)).run_id
        for run_id, payload in zip(carried.run_ids, payloads(_ROWS), strict=True)
    }
    plan = Plan(Definition.model_validate(definition))
    hands = Hands(database, writer, carried.shift_id, plan, definition["name"], random.Random(seed), names)
    await hands.run_to_the_end()
    found = await outcomes(database, definition, carried.run_ids)
    for payload, one in zip(payloads(_ROWS), found, strict=True):
        assert one == alone(definition, payload, seed), definition
