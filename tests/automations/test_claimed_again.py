"""A run is claimed again while its own workflow waits for a call that it made under another claim."""

from __future__ import annotations

from uuid import UUID

from database import Database
from models.runs.runs import QUEUED_CHANNEL
from tests.automations.engine import Endpoint, NewTarget, Work, accept, ended, requested, until, webhook

EXECUTION = "workflow"


async def taken_up(database: Database, run_id: UUID, before: UUID | None = None) -> UUID | None:
    """The claim that the workflow of a run has taken up, if it is another than before."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select claim_id from run_work where run_id = %s and status = 'running' and handed_at is null",
            (run_id,),
        )
        row = await cursor.fetchone()
    return row["claim_id"] if row and row["claim_id"] != before else None


async def test_what_a_call_of_an_earlier_claim_says_does_not_end_the_workflow(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    steps = [webhook(f"{receiver.url}/held", timeout=60), webhook(f"{receiver.url}/next", "next")]
    target = await new_target(steps)
    [run_id] = await accept(database, target)
    async with at_work() as notifier:
        notifier.notify(QUEUED_CHANNEL)
        await requested(receiver, 1)
        first = await taken_up(database, run_id)
        async with database.connection() as connection:
            await connection.execute(
                "update run_work set status = 'queued', carrier = null, claim_id = null where run_id = %s",
                (run_id,),
            )
        notifier.notify(QUEUED_CHANNEL)
        assert await until(lambda: taken_up(database, run_id, first))
        receiver.open.set()
        view = await ended(database, notifier, target.account_id, run_id)
    assert view.status == "completed"
    assert receiver.paths == ["/held", "/held", "/next"]
    assert len({request["headers"]["webhook-id"] for request in receiver.requests}) == 2
