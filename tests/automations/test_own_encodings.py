"""A stranger's payloads of other encodings: of null, bytes and Protobuf. They fail no task of a workflow."""

from __future__ import annotations

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.common import RawValue

from database import Database
from notifications import Notifier
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    ended,
    events_of,
    failed_tasks,
    requested,
    statuses,
    until,
    waiting,
    webhook,
)  # fmt: skip
from tests.automations.own_runs import begun, delay
from workflows.messages import TAKEN_UP

pytestmark = pytest.mark.usefixtures("quick_watch")

PAYLOADS = {
    "null": Payload(metadata={"encoding": b"binary/null"}),
    "bytes": Payload(metadata={"encoding": b"binary/plain"}, data=b"x"),
    "no protobuf": Payload(metadata={"encoding": b"json/protobuf"}, data=b"\xff"),
    "a protobuf": Payload(
        metadata={"encoding": b"json/protobuf", "messageType": b"temporal.api.common.v1.Payload"}, data=b"{}"
    ),
    "a broken protobuf": Payload(
        metadata={"encoding": b"binary/protobuf", "messageType": b"temporal.api.common.v1.Payload"},
        data=b"\xff\xff",
    ),
}


@pytest.mark.parametrize("case", PAYLOADS)
async def test_as_a_signal(
    notifier: Notifier, client: Client, stranger: Client, database: Database, new_target: NewTarget, case: str
) -> None:
    target = await new_target([delay(3, "it")])
    run_id, handle = await begun(notifier, client, database, target)
    await waiting(database, target.account_id, run_id)
    await stranger.get_workflow_handle(handle.id).signal(TAKEN_UP, args=[RawValue(PAYLOADS[case])])

    async def heard() -> bool:
        return bool((await events_of(handle, "workflow_execution_signaled"))[1:])

    await until(heard)
    view = await ended(database, notifier, target.account_id, run_id)
    assert view.status == "completed"
    assert await handle.result() in ("completed", "by_shift")
    assert not await failed_tasks(handle)


@pytest.mark.parametrize("case", PAYLOADS)
async def test_as_the_result_of_a_call(
    notifier: Notifier, client: Client, stranger: Client, database: Database, new_target: NewTarget,
    receiver: Endpoint, case: str,
) -> None:  # fmt: skip
    target = await new_target([webhook(f"{receiver.url}/held", "it")])
    run_id, handle = await begun(notifier, client, database, target)
    await requested(receiver, 1)
    await stranger.get_async_activity_handle(
        workflow_id=handle.id, run_id=None, activity_id="it: webhook"
    ).complete(RawValue(PAYLOADS[case]))
    receiver.open.set()
    view = await ended(database, notifier, target.account_id, run_id)
    assert view.status == "completed" and set(statuses(view).values()) == {"completed"}
    assert not await failed_tasks(handle)
