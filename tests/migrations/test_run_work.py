"""What becomes of runs when those that have not ended move to a table of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import pytest

from database import Database
from language.definition import Definition
from language.progress import ItemWait, StepProgress, read_progress
from migrations.upgrade import downgrade, upgrade
from models.accounts import accounts
from models.accounts.accounts import NewAccount
from models.audit import Actor
from models.automations import automations, run_targets
from models.runs import run_counts, run_lists
from models.runs.acceptance import find_accepted
from models.runs.run_queries import RunQuery
from models.runs.run_views import RunView
from sealing import Keyring
from tests.checked_definitions import checked
from tests.migrations import former_runs
from tests.migrations.former_runs import BEGAN, HOUR, OUTPUTS, REVISION, insert_runs
from tests.views import get_run

UNTIL = datetime(2036, 1, 1, tzinfo=UTC)
UNFINISHED = ["queued", "running", "napping", "backing off"]


class Former(NamedTuple):
    """The account and the workflow whose runs they are, and these, by the state that they were in.

    That was their dedupe key, too.
    """

    account_id: UUID
    automation_id: UUID
    ids: dict[str, UUID]


@pytest.fixture(scope="module")
async def former(database: Database, keyring: Keyring) -> AsyncGenerator[Former]:
    """Runs of the revision before, in a database that was upgraded since."""
    async with database.transaction() as connection:
        email = f"{uuid4().hex}@example.com"
        account = await accounts.create_account(connection, NewAccount(email, "-"))
        definition = Definition.model_validate({"name": "test", "steps": former_runs.steps("http://h")})
        actor = Actor(account.id, "system", name="test")
        created = await automations.create(connection, keyring, actor, checked(definition, "active"))
        target: Any = await run_targets.run_target(connection, account.id, created)
    await asyncio.to_thread(downgrade, database.url, REVISION)
    async with database.transaction() as connection:
        ids = await insert_runs(connection, target, UNTIL)
    await asyncio.to_thread(upgrade, database.url)
    yield Former(account.id, target.automation_id, ids)


async def view_of(database: Database, former: Former, state: str) -> RunView:
    async with database.connection() as connection:
        return await get_run(connection, former.account_id, former.ids[state])


async def work_of(database: Database, former: Former) -> dict[str, dict[str, Any]]:
    """By state the rows of `run_work`."""
    names = {run_id: name for name, run_id in former.ids.items()}
    async with database.connection() as connection:
        cursor = await connection.execute("select * from run_work")
        return {names[row["run_id"]]: row for row in await cursor.fetchall()}


async def test_what_has_not_ended_is_queued(database: Database, former: Former) -> None:
    work = await work_of(database, former)
    assert sorted(work) == sorted(UNFINISHED)
    for name, row in work.items():
        begun = name != "queued"
        assert (row["status"], row["carrier"], row["begun"]) == ("queued", None, begun)
        assert row["started_at"] == (BEGAN if begun else None) and row["available_at"] == BEGAN
        assert (await view_of(database, former, name)).status == "queued"


PROGRESS = {
    "queued": {},
    "running": {},
    "napping": {"nap": StepProgress(began=BEGAN, until=UNTIL)},
    "backing off": {"a": StepProgress(began=BEGAN, attempts=2, until=UNTIL)},
}


@pytest.mark.parametrize("state", UNFINISHED)
async def test_how_far_it_was_is_kept(database: Database, former: Former, state: str) -> None:
    work = await work_of(database, former)
    assert read_progress(work[state]["progress"]).steps == PROGRESS[state]


def test_items_that_were_to_be_repeated_are_read_too() -> None:
    items = {"each": {1: {"attempts": 2, "resume_at": UNTIL.isoformat()}}}
    stored = former_runs.NO_PROGRESS | {"began": {"each": BEGAN.isoformat()}, "items": items}
    waits = {1: ItemWait(attempts=2, until=UNTIL)}
    assert read_progress(stored).steps == {"each": StepProgress(began=BEGAN, items=waits)}


async def test_what_was_to_be_cancelled_is(database: Database, former: Former) -> None:
    view = await view_of(database, former, "to be cancelled")
    assert (view.status, bool(view.completed_at)) == ("cancelled", True)
    assert [step.status for step in view.steps] == ["completed", "skipped", "skipped", "skipped"]


async def test_a_completed_run_shows_the_same_output(database: Database, former: Former) -> None:
    view = await view_of(database, former, "completed")
    assert (view.status, view.output, view.completed_at) == ("completed", OUTPUTS["end"], BEGAN + HOUR)
    assert {step.id: step.output for step in view.steps} == OUTPUTS


async def test_a_failed_run_shows_the_same_error(database: Database, former: Former) -> None:
    view = await view_of(database, former, "failed")
    assert view.error is not None
    assert (view.status, view.output, view.error["code"]) == ("failed", None, "http_status")


async def test_their_keys_are_known(database: Database, former: Former) -> None:
    async with database.connection() as connection:
        for key, run_id in former.ids.items():
            before = await find_accepted(connection, former.automation_id, key)
            assert before is not None and before.run_id == run_id


COUNTS = {"queued": 4, "running": 0, "waiting": 0, "completed": 1, "failed": 1, "cancelled": 2}


@pytest.mark.parametrize("status", COUNTS)
async def test_runs_are_counted_and_listed_as_they_are_now(
    database: Database, former: Former, status: Any
) -> None:
    async with database.connection() as connection:
        views, total, _ = await run_lists.list_page(
            connection, former.account_id, RunQuery(status=status, limit=10)
        )
    assert (len(views), total) == (COUNTS[status], COUNTS[status])


async def test_back_and_forth_all_stays_as_it_is(database: Database, former: Former) -> None:
    async def everything() -> Any:
        async with database.connection() as connection:
            counts = {
                status: await run_counts.count(
                    connection, former.account_id, automation_id=None, status=status
                )
                for status in COUNTS
            }
        views = [await view_of(database, former, name) for name in former.ids]
        return counts, await work_of(database, former), views

    before = await everything()
    await asyncio.to_thread(downgrade, database.url, REVISION)
    await asyncio.to_thread(upgrade, database.url)
    assert await everything() == before
    await test_their_keys_are_known(database, former)
