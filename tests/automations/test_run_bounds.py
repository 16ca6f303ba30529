"""Bounds on runs that have not ended: an account's, and those below one root."""

from __future__ import annotations

from typing import Any

import pytest

from database import Database
from models.automations import run_targets
from models.runs import child_runs
from models.runs.acceptance import RunAcceptance, RunRequest, accept
from models.runs.run_bounds import TooManyRuns, UnfinishedRuns, count_room_below
from services.ingest import accept_together
from tests.automations.engine import NewTarget


async def test_an_account_at_its_bound_is_refused_and_its_neighbour_in_the_same_group_is_not(
    database: Database, new_target: NewTarget
) -> None:
    mine, theirs = await new_target([]), await new_target([])
    bound = UnfinishedRuns(2)
    await accept_together(database, bound, [RunRequest(mine, "webhook", n) for n in range(2)])
    refused, accepted = await accept_together(
        database, bound, [RunRequest(mine, "webhook", 2), RunRequest(theirs, "webhook", 3)]
    )
    assert isinstance(refused, TooManyRuns) and refused.code == "too_many_runs"
    assert isinstance(accepted, RunAcceptance)


async def test_another_process_counts_what_this_one_has_accepted(
    database: Database, new_target: NewTarget
) -> None:
    target = await new_target([])
    await accept_together(database, UnfinishedRuns(9), [RunRequest(target, "webhook", n) for n in range(3)])
    async with database.connection() as connection:
        with pytest.raises(TooManyRuns) as refused:
            await UnfinishedRuns(3).check(connection, target.account_id)
        assert "3 runs that have not ended" in refused.value.message
        await UnfinishedRuns(4).check(connection, target.account_id)


async def test_runs_below_a_root_are_counted_at_every_depth(
    database: Database, new_target: NewTarget
) -> None:
    target: Any = await new_target([])
    async with database.transaction() as connection:
        [root] = await accept(connection, [RunRequest(target, "manual", {})])
        parent_id = root.run_id
        for depth in (1, 2):
            place = await child_runs.lock_place_below(connection, parent_id)
            assert place == child_runs.ChildPosition(depth, root.run_id)
            found = await run_targets.event_target(connection, target.account_id, target.automation_id)
            event = RunRequest(
                found, "workflow", {}, parent_run_id=parent_id, root_run_id=root.run_id, depth=depth
            )
            [child] = await accept(connection, [event])
            parent_id = child.run_id
        room = [await count_room_below(connection, root.run_id, 2, most) for most in (5, 3, 2)]
        assert room == [2, 1, 0]
