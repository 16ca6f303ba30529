"""Carriers of the same runs, in any order, each statement stopped anywhere: nothing is lost or done late."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from uuid import UUID

import psycopg
import pytest

from database import Connection, Database
from models.identifiers import new_id
from models.runs import run_work, shifts
from models.runs.claim_requests import ClaimRequest
from models.runs.run_work import Claim
from models.runs.run_writes import Change, End, record_changes_if_claimed
from tests.automations.claims import new_shift, runs_of
from tests.automations.engine import until
from tests.claims.conftest import Carried, NewRuns
from tests.claims.rows import record

_ROWS, _MOVES = 2, 16


@dataclass(frozen=True)
class Held:
    """A run as a claim has it: what was recorded when it began."""

    run_id: UUID
    claim_id: UUID
    shift_id: UUID
    seen: frozenset[str]


@dataclass
class Sent:
    """A write that was sent: what it returned, once that is known."""

    held: Held
    step_id: str
    ends: bool
    took: bool | None = None


@dataclass
class Story:
    """What happens to some runs. Statements that wait for a lock go on when the lock is let go.

    Attributes:
        held: what was claimed, in that order.
        beats: by shift, the count that was seen last.
    """

    database: Database
    carried: Carried
    chance: random.Random
    held: list[Held] = field(default_factory=list[Held])
    beats: dict[UUID, int] = field(default_factory=dict[UUID, int])
    writes: list[Sent] = field(default_factory=list[Sent])
    tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])
    blocker: Connection | None = None

    async def tell(self) -> None:
        first, self.beats[self.carried.shift_id] = self.carried.shift_id, 0
        self.held = [Held(*one, first, frozenset()) for one in self.carried.claims.items()]
        try:
            for _ in range(_MOVES):
                moves = [self.claim, self.end, self.write, self.write, self.repeat, self.beat, self.give_back]
                moves.append(self.block if self.blocker is None else self.unblock)
                await self.chance.choice(moves)()
        finally:
            if self.blocker is not None:
                await self.unblock()
            await asyncio.gather(*self.tasks)

    async def block(self) -> None:
        """Hold a row, so that statements stop after their snapshot is taken."""
        self.blocker = await self.database.connect_dedicated()
        await self.blocker.execute("begin")
        run_id = self.chance.choice(self.carried.run_ids)
        held, value = self.chance.choice(
            [
                ("run_work where run_id", run_id),
                ("runs where id", run_id),
                ("shifts where id", self.chance.choice(self.held).shift_id),
            ]
        )
        await self.blocker.execute(f"select 1 from {held} = %s for update", (value,))  # pyright: ignore[reportArgumentType]

    async def unblock(self) -> None:
        assert self.blocker is not None
        await self.blocker.execute("commit")
        await self.blocker.close()
        self.blocker = None

    async def claim(self) -> None:
        """For a shift that has runs already, or had, or for a new one."""
        old = self.chance.random() < 0.5
        shift_id = self.chance.choice(self.held).shift_id if old else await new_shift(self.database)
        self.beats.setdefault(shift_id, 0)

        async def do(connection: Connection) -> None:
            try:
                found = await run_work.claim(connection, shift_id, ClaimRequest())
            except psycopg.errors.LockNotAvailable:
                return
            if isinstance(found, Claim):
                # What the new carrier goes on from, read at once: statements may wait, this one never does.
                for run in runs_of(found):
                    seen = await self._steps(connection, run.run_id)
                    self.held.append(Held(run.run_id, run.claim_id, shift_id, seen))

        await self._begin(do)

    async def end(self) -> None:
        """End a shift that has not beaten since somebody saw its count."""
        shift_id = self.chance.choice(self.held).shift_id

        async def do(connection: Connection) -> None:
            await shifts.end(connection, shift_id, self.beats[shift_id])

        await self._begin(do)

    async def beat(self) -> None:
        shift_id = self.chance.choice(self.held).shift_id
        mine = {held.run_id: held.claim_id for held in self.held if held.shift_id == shift_id}

        async def do(connection: Connection) -> None:
            if await shifts.beat(connection, shift_id, 0, mine) is not None and self.chance.random() < 0.8:
                self.beats[shift_id] += 1

        await self._begin(do)

    async def give_back(self) -> None:
        held = self.chance.choice(self.held)

        async def do(connection: Connection) -> None:
            await shifts.requeue_runs(connection, {held.run_id: held.claim_id})

        await self._begin(do)

    async def write(self) -> None:
        # Also by one that has lost the run and does not know it yet.
        held = self.chance.choice(self.held)
        await self._send(Sent(held, f"s{len(self.writes)}", self.chance.random() < 0.1))

    async def repeat(self) -> None:
        """Write again what may have been written: its reply is lost, as far as the carrier knows."""
        if self.writes:
            await self._send(replace(self.chance.choice(self.writes), took=None))

    async def _send(self, sent: Sent) -> None:
        self.writes.append(sent)
        held = sent.held
        change = Change(
            held.claim_id, held.run_id, [record(held.run_id, sent.step_id, str(held.claim_id))],
            End("completed", output_of=sent.step_id) if sent.ends else None,
        )  # fmt: skip

        async def do(connection: Connection) -> None:
            sent.took = held.run_id in (await record_changes_if_claimed(connection, [change])).runs

        await self._begin(do)

    async def _begin(self, do: Callable[[Connection], Awaitable[None]]) -> None:
        """Begin, and go on with the story when it is done or waits for a lock."""
        connection = await self.database.connect_dedicated()

        async def work() -> None:
            async with connection:
                await do(connection)

        task = asyncio.create_task(work())
        self.tasks.append(task)
        pid = connection.info.backend_pid

        async def rests() -> bool:
            if (await asyncio.wait([task], timeout=0.01))[0]:
                return True
            async with self.database.connection() as looking:
                cursor = await looking.execute(
                    "select wait_event_type = 'Lock' as waits from pg_stat_activity where pid = %s", (pid,)
                )
                found = await cursor.fetchone()
            return found is None or bool(found["waits"])

        await until(rests)

    async def _steps(self, connection: Connection, run_id: UUID) -> frozenset[str]:
        cursor = await connection.execute("select step_id from run_steps where run_id = %s", (run_id,))
        return frozenset([row["step_id"] for row in await cursor.fetchall()])

    async def check(self) -> None:
        for run_id in self.carried.run_ids:
            async with self.database.connection() as connection:
                steps = await self._steps(connection, run_id)
                cursor = await connection.execute(
                    "select r.status, s.output from runs r left join run_steps s"
                    " on s.run_id = r.id and s.step_id = r.output_of where r.id = %s",
                    (run_id,),
                )
                run = await cursor.fetchone()
            assert run is not None
            held = [one for one in self.held if one.run_id == run_id]
            took = [one for one in self.writes if one.took and one.held.run_id == run_id]
            # What a write said is what happened.
            assert {one.step_id for one in took} == steps
            for one in took:
                # Every later carrier began with it.
                assert all(one.step_id in later.seen for later in held[held.index(one.held) + 1 :]), one
            ends = {str(one.held.claim_id) for one in took if one.ends}
            assert len(ends) == (run["status"] == "completed")
            assert run["output"] in ends | {None}
            assert len({one.claim_id for one in held}) == len(held)


@pytest.mark.parametrize("seed", range(60))
async def test_what_a_carrier_has_written_its_successor_has_seen(
    database: Database, new_runs: NewRuns, seed: int
) -> None:
    story = Story(database, await new_runs([{}] * _ROWS), random.Random(seed))
    await story.tell()
    await story.check()


async def test_of_two_shifts_that_two_end_at_once_each_is_ended_once(
    database: Database, new_runs: NewRuns
) -> None:
    first, second = await new_runs([{}] * 3), await new_runs([{}] * 2)

    async def end(shift_id: UUID) -> int | None:
        async with database.connection() as connection:
            return await shifts.end(connection, shift_id, 0)

    found = await asyncio.gather(*(end(one.shift_id) for _ in range(4) for one in (first, second)))
    assert sorted(one for one in found if one is not None) == [2, 3]
    assert await end(new_id()) is None
