"""Ending all runs of a workflow at once."""

from typing import Any

from database import Database
from models import runs
from tests.api_server import Person
from tests.automations.engine import transform
from tests.runs.conftest import Follow
from tests.runs.workflows import adrift, create, start, statuses

WAIT: dict[str, Any] = {"id": "wait", "type": "delay", "config": {"days": 1}}


async def run_of(database: Database, run_id: str) -> dict[str, Any]:
    async with database.connection() as connection:
        cursor = await connection.execute("select * from runs where id = %s", (run_id,))
        row = await cursor.fetchone()
    assert row is not None
    return row


async def test_runs_at_work_are_to_be_told_by_batch_and_queued_ones_end_at_once(
    person: Person, database: Database
) -> None:
    at_work = await adrift(person, database)
    row = await run_of(database, at_work)
    queued = await start(person, str(row["automation_id"]))
    others = await start(person, await create(person, [WAIT]))
    async with database.transaction() as connection:
        told = await runs.cancel_all(connection, person.account.id, row["automation_id"])
    assert {str(batch): [str(id) for id in ids] for batch, ids in told.items()} == {at_work: [at_work]}
    row = await run_of(database, at_work)
    assert (row["status"], row["completed_at"]) == ("running", None) and row["cancel_requested_at"]
    row = await run_of(database, queued)
    assert row["status"] == "cancelled" and row["completed_at"]
    assert (await run_of(database, others))["cancel_requested_at"] is None


async def test_another_accounts_runs_stay(person: Person, database: Database, api: Any) -> None:
    stranger = await api.person()
    run_id = await start(person, await create(person, [WAIT]))
    row = await run_of(database, run_id)
    async with database.transaction() as connection:
        assert await runs.cancel_all(connection, stranger.account.id, row["automation_id"]) == {}
    assert (await run_of(database, run_id))["cancel_requested_at"] is None


async def test_runs_that_wait_for_long_end_at_once_and_count_what_they_cost(
    person: Person, database: Database, worker: None, follow: Follow
) -> None:
    look_up = {"id": "look", "type": "phone_lookup", "config": {"value": "+14155552671"}}
    run_id = await start(person, await create(person, [look_up, WAIT, transform("last", "'x'")]))
    run = await follow(run_id, "waiting")
    async with database.transaction() as connection:
        assert await runs.cancel_all(connection, person.account.id, run["workflow_id"]) == {}
    ended = await follow(run_id)
    assert (ended["status"], ended["credits_used"]) == ("cancelled", 1)
    assert statuses(ended) == {"look": "completed", "wait": "cancelled", "last": "skipped"}
