"""Executors of one batch, in any order, each statement stopped anywhere: nothing is written twice or late."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import pytest

from database import Connection, Database
from models import leases
from models.identifiers import new_id
from models.leases import Lease
from models.run_writes import Change, End, record_changes_if_leased
from tests.automations.engine import until
from tests.leases.conftest import Batch, NewBatch
from tests.leases.test_leases import record

_ROWS, _MOVES = 2, 14


@dataclass
class Written:
    """A write that was sent: what it returned, once that is known."""

    lease: Lease
    run_id: UUID
    step_id: str
    ends: bool
    took: bool | None = None


@dataclass
class Story:
    """What happens to one batch. Statements that wait for a lock go on when the lock is let go."""

    database: Database
    batch: Batch
    chance: random.Random
    leases: list[Lease] = field(default_factory=list[Lease])
    seen: dict[Lease, set[str]] = field(default_factory=dict[Lease, set[str]])
    writes: list[Written] = field(default_factory=list[Written])
    tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])
    blocker: Connection | None = None

    async def tell(self) -> None:
        try:
            for _ in range(_MOVES):
                moves = [self.take_over, self.write, self.write, self.repeat, self.beat, self.silence]
                moves.append(self.block if self.blocker is None else self.unblock)
                await self.chance.choice(moves)()
        finally:
            if self.blocker is not None:
                await self.unblock()
            await asyncio.gather(*self.tasks)

    async def block(self) -> None:
        """Hold a row or the batch, so that statements stop after their snapshot is taken."""
        self.blocker = await self.database.dedicated()
        await self.blocker.execute("begin")
        run_id = self.chance.choice(self.batch.run_ids)
        held, value = self.chance.choice(
            [
                ("run_work where run_id", run_id),
                ("runs where id", run_id),
                ("batches where id", self.batch.id),
            ]
        )
        await self.blocker.execute(f"select 1 from {held} = %s for update", (value,))  # pyright: ignore[reportArgumentType]

    async def unblock(self) -> None:
        assert self.blocker is not None
        await self.blocker.execute("commit")
        await self.blocker.close()
        self.blocker = None

    async def take_over(self) -> None:
        async def do(connection: Connection) -> None:
            taken = await leases.take_over(connection, self.batch.id, new_id())
            if taken is not None:
                lease = taken.lease
                # What the new executor goes on from, read at once: statements may wait, this one never does.
                self.seen[lease] = await self._steps(connection)
                self.leases.append(lease)

        await self._begin(do)

    async def write(self) -> None:
        if not self.leases:
            return
        # Also by one that has lost its lease and does not know it yet.
        lease, run_id = self.chance.choice(self.leases), self.chance.choice(self.batch.run_ids)
        await self._send(Written(lease, run_id, f"s{len(self.writes)}", self.chance.random() < 0.1))

    async def repeat(self) -> None:
        """Write again what may have been written: its reply is lost, as far as the executor knows."""
        if self.writes:
            await self._send(replace(self.chance.choice(self.writes), took=None))

    async def _send(self, written: Written) -> None:
        self.writes.append(written)
        lease, run_id = written.lease, written.run_id
        change = Change(
            lease, run_id, [record(run_id, written.step_id, str(lease.executor))],
            End("completed", output_of=written.step_id) if written.ends else None,
        )  # fmt: skip

        async def do(connection: Connection) -> None:
            written.took = run_id in (await record_changes_if_leased(connection, [change])).runs

        await self._begin(do)

    async def beat(self) -> None:
        async def do(connection: Connection) -> None:
            await leases.renew(connection, self.leases)

        await self._begin(do)

    async def silence(self) -> None:
        async def do(connection: Connection) -> None:
            await connection.execute(
                "update batches set beat_at = '-infinity' where id = %s", (self.batch.id,)
            )

        await self._begin(do)

    async def _begin(self, do: Any) -> None:
        """Begin, and go on with the story when it is done or waits for a lock."""
        connection = await self.database.dedicated()

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

    async def _steps(self, connection: Connection) -> set[str]:
        cursor = await connection.execute(
            "select step_id from run_steps where run_id = any(%s)", (self.batch.run_ids,)
        )
        return {row["step_id"] for row in await cursor.fetchall()}

    async def check(self) -> None:
        async with self.database.connection() as connection:
            steps = await self._steps(connection)
            cursor = await connection.execute(
                "select r.id, r.status, s.output from runs r left join run_steps s"
                " on s.run_id = r.id and s.step_id = r.output_of where r.id = any(%s)",
                (self.batch.run_ids,),
            )
            runs = {row["id"]: row for row in await cursor.fetchall()}
        # What a write said is what happened.
        assert {one.step_id for one in self.writes if one.took} == steps
        for place, lease in enumerate(self.leases):
            after = self.leases[place + 1 :]
            for one in self.writes:
                if one.took and one.lease == lease:
                    # Every later executor began with it.
                    assert all(one.step_id in self.seen[later] for later in after), one
        for run_id, run in runs.items():
            ends = {one.lease for one in self.writes if one.took and one.ends and one.run_id == run_id}
            assert len(ends) == (run["status"] == "completed")
            assert run["output"] in {str(lease.executor) for lease in ends} | {None}


@pytest.mark.parametrize("seed", range(60))
async def test_what_an_executor_has_written_its_successor_has_seen(
    database: Database, new_batch: NewBatch, seed: int
) -> None:
    story = Story(database, await new_batch([{}] * _ROWS), random.Random(seed))
    await story.tell()
    await story.check()
