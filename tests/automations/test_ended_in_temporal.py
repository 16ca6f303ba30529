"""A run whose workflow somebody ends in Temporal is cancelled, however soon it would have gone on."""

from __future__ import annotations

import asyncio

import pytest
from temporalio.client import Client, WorkflowExecutionDescription

from database import Database
from execution.workflow_watch import WorkflowWatch
from models.runs import resumption
from models.runs.runs import QUEUED_CHANNEL
from notifications import Notifier
from tests.automations.engine import Endpoint, NewTarget, ended, waiting, webhook
from tests.automations.own_runs import approval, begun, delay

EXECUTION = "workflow"


@pytest.mark.parametrize("how", ["time", "answer"])
async def test_a_run_whose_wait_ends_just_after_its_workflow_was_terminated(
    notifier: Notifier,
    client: Client,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    how: str,
) -> None:
    step = delay(4, "it") if how == "time" else approval()
    target = await new_target([step, webhook(receiver.url, "after")])
    run_id, handle = await begun(notifier, client, database, target)
    await waiting(database, target.account_id, run_id)
    await handle.terminate(reason="looks wrong")
    if how == "answer":
        async with database.transaction() as connection:
            await resumption.resume(connection, run_id, step["id"], {"by": "ada"})
        notifier.notify(QUEUED_CHANNEL)
    view = await ended(database, notifier, target.account_id, run_id)
    assert (view.status, receiver.paths) == ("cancelled", [])


@pytest.mark.parametrize("trouble", [pytest.param("silence", marks=pytest.mark.long), "put back"])
async def test_a_run_that_goes_on_after_its_workflow_was_terminated_and_temporal_was_away(
    notifier: Notifier,
    client: Client,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
    trouble: str,
) -> None:
    target = await new_target([delay(4, "it"), webhook(receiver.url, "after")])
    run_id, handle = await begun(notifier, client, database, target)
    await waiting(database, target.account_id, run_id)
    await handle.terminate(reason="looks wrong")
    if trouble == "silence":
        until = asyncio.get_running_loop().time() + 9

        async def describe(self: WorkflowWatch, workflow_id: str) -> WorkflowExecutionDescription | None:
            if asyncio.get_running_loop().time() < until:
                raise TimeoutError
            return await real(self, workflow_id)

        real = WorkflowWatch._describe  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(WorkflowWatch, "_describe", describe)
    else:
        async with database.connection() as connection:
            # As `put_back` leaves a run whose workflow could not be started.
            await connection.execute(
                "update run_work set status = 'queued', carrier = null, handed_at = null, claim_id = null,"
                " own = true, wake_at = null, available_at = clock_timestamp() where run_id = %s",
                (run_id,),
            )
        notifier.notify(QUEUED_CHANNEL)
    view = await ended(database, notifier, target.account_id, run_id)
    assert (view.status, receiver.paths) == ("cancelled", [])
