"""Children that begin together: each of them as if it began alone."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from database import Connection, Database
from engine.calls import AttemptResult
from execution.child_starts import PENDING, ChildStarts
from models.runs import child_runs
from services.event_checks import EventChecks
from settings import Settings
from tests.claims.conftest import Carried, NewRuns


class _Unheard:
    def notify(self, *_: str) -> None:
        """Hear nothing: nobody claims these children."""


def new_starts(database: Database, **bounds: int) -> ChildStarts:
    unused: Any = None  # the children have no input schema
    heard: Any = _Unheard()
    return ChildStarts(database, heard, EventChecks(unused), Settings().model_copy(update=bounds))


def begin(
    starts: ChildStarts, parents: Carried, parent_id: UUID, item: int, given: Any = None
) -> asyncio.Task[AttemptResult]:
    key = child_runs.key_of(parents.automation_id, parent_id, "child", item)
    return asyncio.create_task(starts.begin(parents.account_id, parent_id, key, {"input": given}))


async def items_of(connection: Connection, parent_id: UUID) -> list[Any]:
    cursor = await connection.execute(
        "select r.input from run_work w join runs r on r.id = w.run_id where w.parent_run_id = %s"
        " order by r.input::text",
        (parent_id,),
    )
    return [row["input"] for row in await cursor.fetchall()]


async def test_a_child_whose_parent_is_being_written_waits_alone(
    database: Database, new_runs: NewRuns
) -> None:
    parents = await new_runs([{}, {}])
    locked, free = parents.run_ids
    starts = new_starts(database)
    async with database.transaction() as connection:
        await connection.execute("select from run_work where run_id = %s for update", (locked,))
        waits = begin(starts, parents, locked, 0, "later")
        assert await begin(starts, parents, free, 0, "now") == PENDING
        assert not waits.done()
    assert await waits == PENDING
    async with database.connection() as connection:
        assert [await items_of(connection, one) for one in (locked, free)] == [["later"], ["now"]]


async def test_of_children_that_are_too_many_as_many_begin_as_there_is_room_for(
    database: Database, new_runs: NewRuns
) -> None:
    parents = await new_runs([{}])
    parent_id, _ = parents.only
    starts = new_starts(database, max_descendants=3)
    results = await asyncio.gather(*(begin(starts, parents, parent_id, item, item) for item in range(5)))
    codes = [result.error and result.error.code for result in results]
    assert codes == [None] * 3 + ["too_many_descendants"] * 2
    async with database.connection() as connection:
        assert await items_of(connection, parent_id) == [0, 1, 2]


async def test_a_child_that_begins_twice_at_once_begins_once(database: Database, new_runs: NewRuns) -> None:
    parents = await new_runs([{}])
    parent_id, _ = parents.only
    starts = [new_starts(database) for _ in range(2)]
    results = await asyncio.gather(*(begin(one, parents, parent_id, 0) for one in starts * 2))
    assert results == [PENDING] * 4
    async with database.connection() as connection:
        assert len(await items_of(connection, parent_id)) == 1


async def test_a_parent_that_has_ended_gets_no_child(database: Database, new_runs: NewRuns) -> None:
    parents = await new_runs([{}])
    parent_id, _ = parents.only
    async with database.connection() as connection:
        await connection.execute("delete from run_work where run_id = %s", (parent_id,))
    assert await begin(new_starts(database), parents, parent_id, 0) == PENDING
    async with database.connection() as connection:
        assert await items_of(connection, parent_id) == []
