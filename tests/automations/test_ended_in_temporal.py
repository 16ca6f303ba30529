"""A run whose workflow somebody ends in Temporal is cancelled, however soon it would have gone on."""

from __future__ import annotations

import pytest
from temporalio.client import Client

from database import Database
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
