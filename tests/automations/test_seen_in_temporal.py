"""What an operator sees of a batch in Temporal: summaries, priority, search attributes, but no data."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.common import SearchAttributeKey
from temporalio.converter import DataConverter, WorkflowSerializationContext
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import ExecuteActivityInput

from database import Database, Notifier
from models.runs import QUEUED_CHANNEL
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    Work,
    accept_each,
    batch_workflow,
    ended,
    events_of,
    until,
    webhook,
)
from tests.automations.faults import Do, Lost
from workflows.messages import ADVANCE_RUNS, QUEUE_DUE

CANARY = "canary@example.com"


def converter_of(client: Client, handle: WorkflowHandle[Any, Any]) -> DataConverter:
    """Opens what is sealed for this workflow."""
    return client.data_converter.with_context(WorkflowSerializationContext(client.namespace, handle.id))


async def test_a_batch_has_its_priority_its_fairness_key_and_its_search_attributes(
    at_work: Work, client: Client, database: Database, new_target: NewTarget
) -> None:
    target = await new_target()
    [run_id] = await accept_each(database, target, [None])
    async with at_work() as notifier:
        await ended(database, notifier, target.account_id, run_id)
    description = await (await batch_workflow(client, database, run_id)).describe()
    priority = description.raw_description.workflow_execution_info.priority
    assert (priority.priority_key, priority.fairness_key) == (2, str(target.account_id))
    assert await description.static_summary() == "1 runs of version 1"
    attributes = {pair.key.name: pair.value for pair in description.typed_search_attributes}
    assert {name: value for name, value in attributes.items() if name.startswith("Vedette")} == {
        "VedetteAccount": str(target.account_id),
        "VedetteKind": "automation",
        "VedetteDefinition": str(target.automation_id),
        "VedetteTrigger": "manual",
    }


async def test_a_batch_is_found_by_its_account(
    at_work: Work, client: Client, database: Database, new_target: NewTarget
) -> None:
    target = await new_target()
    [run_id] = await accept_each(database, target, [None])
    async with at_work() as notifier:
        await ended(database, notifier, target.account_id, run_id)
    handle = await batch_workflow(client, database, run_id)
    account = SearchAttributeKey.for_keyword("VedetteAccount")

    async def found() -> list[str]:
        query = f"{account.name} = '{target.account_id}'"
        return [one.id async for one in client.list_workflows(query)]

    assert await until(found) == [handle.id]


async def text_of(handle: WorkflowHandle[Any, Any]) -> bytes:
    """All of a history, as it is stored."""
    return b"".join(event.SerializeToString() for event in (await handle.fetch_history()).events)


async def begun(
    notifier: Notifier, client: Client, database: Database, run_id: UUID
) -> WorkflowHandle[Any, Any]:
    """The workflow of the first batch of a run, which has just been accepted."""

    async def started() -> bool:
        async with database.connection() as connection:
            cursor = await connection.execute(
                "select 1 from run_work where run_id = %s and status = 'queued'", (run_id,)
            )
            return await cursor.fetchone() is None

    notifier.notify(QUEUED_CHANNEL)
    await until(started)
    handle = await batch_workflow(client, database, run_id)

    async def known() -> bool:
        # The claim commits before the start.
        try:
            await handle.describe()
        except RPCError as error:
            return error.status is not RPCStatusCode.NOT_FOUND
        return True

    await until(known)
    return handle


@pytest.mark.parametrize("name", [ADVANCE_RUNS, QUEUE_DUE])
async def test_what_an_activity_failed_with_is_sealed(
    at_work: Work, client: Client, database: Database, new_target: NewTarget, name: str
) -> None:
    async def fail_once(_: ExecuteActivityInput, do: Do) -> Any:
        if activity.info().activity_type == name and activity.info().attempt == 1:
            raise Lost(f"could not reach {CANARY}")
        return await do()

    wait = {"id": "wait", "type": "delay", "config": {"seconds": 2.5}}
    target = await new_target([wait])
    [run_id] = await accept_each(database, target, [None])
    async with at_work(fail_once) as notifier:
        handle = await begun(notifier, client, database, run_id)
        await handle.result()
    started = [
        event.activity_task_started_event_attributes
        for event in await events_of(handle, "activity_task_started")
    ]
    failures = [one.last_failure for one in started if one.HasField("last_failure")]
    # The failure is there, its message is not.
    assert [failure.message for failure in failures] == ["Encoded failure"]
    assert b"canary" not in await text_of(handle)
    decoded = await converter_of(client, handle).decode_failure(failures[0])
    assert CANARY in str(decoded)


async def test_a_history_holds_no_values(
    at_work: Work, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    """Sealed or not: what is in a history is as large as an id, whatever the run was started with."""
    target = await new_target([webhook(receiver.url, body="{{ trigger }}")])
    [run_id] = await accept_each(database, target, [CANARY * 5000])
    async with at_work() as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
        assert view.status == "completed"
        handle = await begun(notifier, client, database, run_id)
        await handle.result()
    assert len(await text_of(handle)) < 10_000
