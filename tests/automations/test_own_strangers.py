"""What a stranger can do to runs with workflows of their own who reaches Temporal's port: nothing."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowFailureError

from database import Database
from models.runs.runs import QUEUED_CHANNEL
from notifications import Notifier
from temporal.client import TASK_QUEUE
from temporal.starts import run_workflow_id
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    accept,
    ended,
    events_of,
    requested,
    statuses,
    until,
    waiting,
    webhook,
)
from tests.automations.own_runs import (
    Handle,
    begun,
    carried,
    delay,
    performers,
)
from workflows.messages import LEFT, LOOK, TAKEN_UP, OwnRun

pytestmark = pytest.mark.usefixtures("quick_watch")


async def forged(stranger: Client, workflow_id: str, given: OwnRun) -> Handle:
    return await stranger.start_workflow("AutomationRun", given, id=workflow_id, task_queue=TASK_QUEUE)


async def test_a_start_with_a_claim_that_is_none_changes_nothing(
    notifier: Notifier, stranger: Client, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    """Here of a run that goes by a shift: that of another stands in the way of no start."""
    target = await new_target([webhook(f"{receiver.url}/held")], execution="shift")
    [run_id] = await accept(database, target)
    notifier.notify(QUEUED_CHANNEL)
    await requested(receiver, 1)
    claim_id, _ = await carried(database, run_id)
    for claim in (uuid4(), claim_id):
        handle = await forged(stranger, run_workflow_id(run_id), OwnRun(run_id, claim))
        # The watch finds that nothing is carried by it.
        assert await handle.result() == "by_shift"
    receiver.open.set()
    view = await ended(database, notifier, target.account_id, run_id)
    assert (view.status, len(receiver.requests)) == ("completed", 1)
    assert await performers(database, run_id) == {"call": "shift"}


async def test_a_start_under_another_id_is_refused(
    notifier: Notifier,
    client: Client,
    stranger: Client,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
) -> None:
    target = await new_target([webhook(f"{receiver.url}/held")])
    run_id, handle = await begun(notifier, client, database, target)
    await requested(receiver, 1)
    claim_id, _ = await carried(database, run_id)
    copy = await forged(stranger, run_workflow_id(uuid4()), OwnRun(run_id, claim_id))
    with pytest.raises(WorkflowFailureError):
        await copy.result()
    receiver.open.set()
    assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
    assert (await handle.result(), len(receiver.requests)) == ("completed", 1)


SIGNALS: dict[str, tuple[Any, ...]] = {
    "a claim that is none": (TAKEN_UP, True),
    "another's claim": (TAKEN_UP, False),
    "to leave": (LEFT,),
    "to look": (LOOK,),
}


@pytest.mark.parametrize("where", ["call", "wait"])
@pytest.mark.parametrize("case", SIGNALS)
async def test_a_strangers_signal_changes_nothing(
    notifier: Notifier, client: Client, stranger: Client, database: Database, new_target: NewTarget,
    receiver: Endpoint, case: str, where: str,
) -> None:  # fmt: skip
    step = webhook(f"{receiver.url}/held", "it") if where == "call" else delay(3, "it")
    target = await new_target([step, webhook(f"{receiver.url}/after", "after")])
    run_id, handle = await begun(notifier, client, database, target)
    if where == "call":
        await requested(receiver, 1)
    else:
        await waiting(database, target.account_id, run_id)
    name, *own = SIGNALS[case]
    given = [OwnRun(run_id if own[0] else uuid4(), uuid4())] if own else []
    await stranger.get_workflow_handle(handle.id).signal(name, args=given)

    async def heard() -> bool:
        # While a task is under way, the server keeps a signal apart.
        signals = (await events_of(handle, "workflow_execution_signaled"))[1:]
        done = await events_of(handle, "workflow_task_completed")
        return bool(signals) and done[-1].event_id > signals[0].event_id

    await until(heard)
    receiver.open.set()
    view = await ended(database, notifier, target.account_id, run_id)
    assert view.status == "completed" and set(statuses(view).values()) == {"completed"}
    assert receiver.paths == (["/held", "/after"] if where == "call" else ["/after"])
    if where == "call":
        assert await handle.result() == "completed"
