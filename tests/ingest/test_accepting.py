"""Accepting events: each once, whatever fails when, and without standing in each other's way."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from database import Database
from micro_batcher import MicroBatcher
from models.runs import acceptance
from models.runs.acceptance import RunAcceptance, RunRequest
from models.runs.run_bounds import UnfinishedRuns
from services.ingest import accept_together
from tests.automations.engine import NewTarget
from tests.ingest.conftest import RunsOf
from tests.stacks import eventually
from tests.views import get_run

FAILURES: dict[str, Exception] = {
    "the connection is lost": psycopg.OperationalError("the reply was lost"),
    "a fault of ours": LookupError("a fault"),
    "something that one event could be at fault for": psycopg.DataError("one of them"),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_group_that_fails_after_its_commit_is_accepted_once(
    database: Database, new_target: NewTarget, runs_of: RunsOf, failure: str
) -> None:
    target, failures = await new_target(), [FAILURES[failure]]

    async def ask(events: list[RunRequest]) -> list[RunAcceptance | Exception]:
        accepted = await accept_together(database, UnfinishedRuns(1000), events)
        if len(events) > 1 and failures:
            raise failures.pop()
        return accepted

    batcher = MicroBatcher(ask)
    asked = [RunRequest(target, "webhook", n) for n in range(3)]
    found = await asyncio.gather(*map(batcher.submit, asked), return_exceptions=True)
    assert await runs_of(target.automation_id) == 3
    for answer, event in zip(found, asked, strict=True):
        if isinstance(answer, RunAcceptance):
            assert answer == RunAcceptance(run_id=event.run_id, repeated=False)
        else:
            assert answer is FAILURES[failure]


async def test_repeating_the_very_same_events_finds_their_runs(
    database: Database, new_target: NewTarget, runs_of: RunsOf
) -> None:
    target = await new_target()
    events = [RunRequest(target, "webhook", 1), RunRequest(target, "webhook", 2, dedupe_key="k")]
    async with database.connection() as connection:
        first = await acceptance.accept(connection, events)
        assert await acceptance.accept(connection, events) == first
    assert [answer.repeated for answer in first] == [False, False]
    assert await runs_of(target.automation_id) == 2


async def test_of_events_with_one_key_in_one_group_the_first_is_the_run(
    database: Database, new_target: NewTarget, runs_of: RunsOf
) -> None:
    target = await new_target()
    events = [RunRequest(target, "webhook", n, dedupe_key=key) for n, key in enumerate("aba")]
    async with database.connection() as connection:
        answers = await acceptance.accept(connection, events)
    assert [answer.repeated for answer in answers].count(True) == 1
    assert answers[0].run_id == answers[2].run_id != answers[1].run_id
    assert await runs_of(target.automation_id) == 2


async def test_two_processes_with_the_same_keys_in_opposite_orders_wait_and_do_not_block_each_other(
    database: Database, new_target: NewTarget, runs_of: RunsOf
) -> None:
    target = await new_target()
    theirs = RunRequest(target, "webhook", "theirs", dedupe_key="b")
    ours = [RunRequest(target, "webhook", "ours", dedupe_key=key) for key in "cba"]
    async with await database.connect_dedicated() as other, other.transaction():
        await acceptance.accept(other, [theirs])
        waiting = asyncio.create_task(accept_together(database, UnfinishedRuns(1000), ours))
        await eventually(lambda: waits_for_a_lock(database), what="the group waits")
        # Sorted: what comes after the key that is held has not been taken yet, so nobody waits for us.
        await acceptance.accept(other, [RunRequest(target, "webhook", "theirs", dedupe_key="c")])
    answers = await waiting
    assert [answer.repeated for answer in answers if isinstance(answer, RunAcceptance)] == [True, True, False]
    assert await runs_of(target.automation_id) == 3


async def waits_for_a_lock(database: Database) -> bool:
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select from pg_stat_activity where datname = current_database()"
            " and wait_event_type = 'Lock' and query like '%insert into run_dedupe_keys%'"
        )
        return await cursor.fetchone() is not None


AWKWARD: dict[str, Any] = {
    "quotes and backslashes": {'"': '\\"{},null'},
    "a NUL": "a\x00b",
    "null": None,
    "the text null": "null",
    "an empty text": "",
    "text beyond the basic plane": "😀\u2028",
    "nested arrays": [[], [[1, 2.5]], {}],
}


@pytest.mark.parametrize("case", AWKWARD)
async def test_an_input_is_stored_as_it_came(database: Database, new_target: NewTarget, case: str) -> None:
    target = await new_target()
    async with database.connection() as connection:
        [accepted] = await acceptance.accept(connection, [RunRequest(target, "webhook", AWKWARD[case])])
        view = await get_run(connection, target.account_id, accepted.run_id)
    assert view.input == AWKWARD[case]
