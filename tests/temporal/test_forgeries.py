"""What somebody can do who reaches Temporal but has no key: nothing by what they write themselves or copy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.workflowservice.v1 import (
    RespondActivityTaskCompletedByIdRequest,
)
from temporalio.client import (
    ActivityFailureError,
    Client,
    ScheduleActionExecutionStartWorkflow,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
)
from temporalio.common import RawValue, RetryPolicy, WorkflowIDReusePolicy
from temporalio.converter import DataConverter, WorkflowSerializationContext

from database import Database
from execution import workflow_watch
from models.automations.run_targets import RunTarget
from models.runs.runs import QUEUED_CHANNEL
from notifications import Notifier
from sealing import Keyring
from temporal import schedules
from temporal.client import TASK_QUEUE
from temporal.converter import data_converter
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    accept,
    ended,
    events_of,
    failed_tasks,
    requested,
    run_workflow,
    statuses,
    until,
    webhook,
)
from workflows.messages import PURGE_LOOKUPS

UnderWay = tuple[RunTarget, UUID, WorkflowHandle[Any, Any]]
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("quick_watch")]
_KEEP = timedelta(minutes=5)  # of a forged workflow, should it not end by itself


def _raw(**fields: Any) -> RawValue:
    """A payload as it is, past the sender's converter."""
    return RawValue(Payload(**fields))


FORMS: dict[str, Callable[[], list[Any]]] = {
    "in clear": lambda: [PURGE_LOOKUPS],
    "null": lambda: [None],
    "none at all": list,
    "too many": lambda: [PURGE_LOOKUPS, PURGE_LOOKUPS],
    "nothing sealed": lambda: [_raw(metadata={"encoding": b"binary/vedette-sealed"})],
    "junk": lambda: [_raw(metadata={"encoding": b"binary/vedette-sealed"}, data=b"\x01" * 64)],
    "refused": lambda: [_raw(metadata={"encoding": b"binary/vedette-refused"})],
    "without an encoding": lambda: [_raw(data=b"x")],
}


async def _forged(stranger: Client, kind: str, *args: Any, workflow_id: str = "") -> WorkflowHandle[Any, Any]:
    return await stranger.start_workflow(
        kind,
        args=args,
        id=workflow_id or f"forged/{uuid4()}",
        task_queue=TASK_QUEUE,
        execution_timeout=_KEEP,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
    )


async def _fails_at_once(handle: WorkflowHandle[Any, Any]) -> None:
    """The workflow has failed in its first task, and nothing was done for it."""
    with pytest.raises(WorkflowFailureError):
        await asyncio.wait_for(handle.result(), 20)
    assert (await handle.describe()).status is WorkflowExecutionStatus.FAILED
    assert not await failed_tasks(handle)
    assert not await events_of(handle, "activity_task_scheduled")


async def _input_of(handle: WorkflowHandle[Any, Any]) -> Payload:
    """Return what anybody can copy of a history: the sealed input."""
    [started] = await events_of(handle, "workflow_execution_started")
    [payload] = started.workflow_execution_started_event_attributes.input.payloads
    return payload


@pytest.fixture
async def under_way(
    client: Client, database: Database, notifier: Notifier, new_target: NewTarget, receiver: Endpoint
) -> UnderWay:
    """A run whose webhook has been sent and is not answered yet, and its workflow."""
    target = await new_target([webhook(f"{receiver.url}/held")])
    [run_id] = await accept(database, target)
    notifier.notify(QUEUED_CHANNEL)
    await requested(receiver, 1)
    return target, run_id, await run_workflow(client, run_id)


def _sealed_for(keyring: Keyring, workflow_id: str) -> DataConverter:
    """Seals as our own processes do for a workflow; without one, as releases did that bound nothing."""
    converter = data_converter(keyring)
    if not workflow_id:
        return converter
    return converter.with_context(WorkflowSerializationContext("default", workflow_id))


class TestAStart:
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("kind", ["AutomationRun", "TopUp", "Maintenance"])
    async def test_that_is_forged_fails_its_workflow_which_has_done_nothing(
        self, stranger: Client, notifier: Notifier, kind: str, form: str
    ) -> None:
        await _fails_at_once(await _forged(stranger, kind, *FORMS[form]()))

    @pytest.mark.parametrize("kind", ["AutomationRun", "TopUp", "Maintenance"])
    async def test_that_another_installation_has_sealed_fails_too(
        self, stranger: Client, notifier: Notifier, kind: str
    ) -> None:
        [payload] = await data_converter(Keyring(["k" * 32])).encode([PURGE_LOOKUPS])
        await _fails_at_once(await _forged(stranger, kind, RawValue(payload)))

    @pytest.mark.parametrize(
        ("kind", "args"), [("Maintenance", [PURGE_LOOKUPS]), ("DeliveryBatch", [str(uuid4())])]
    )
    async def test_of_another_kind_under_the_id_of_a_run_fails(
        self, stranger: Client, notifier: Notifier, kind: str, args: list[Any]
    ) -> None:
        """What such a workflow is given goes unsealed, so that none but a run's may take it."""
        await _fails_at_once(await _forged(stranger, kind, *args, workflow_id=f"run/{uuid4()}"))

    async def test_that_is_copied_under_another_id_fails_and_sends_nothing(
        self,
        stranger: Client,
        database: Database,
        notifier: Notifier,
        receiver: Endpoint,
        under_way: UnderWay,
    ) -> None:
        target, run_id, handle = under_way
        copy = RawValue(await _input_of(handle))
        await _fails_at_once(await _forged(stranger, "AutomationRun", copy))
        receiver.open.set()
        assert statuses(await ended(database, notifier, target.account_id, run_id)) == {"call": "completed"}
        assert len(receiver.requests) == 1

    async def test_that_is_copied_under_its_own_id_when_it_is_over_sends_nothing(
        self,
        stranger: Client,
        database: Database,
        notifier: Notifier,
        receiver: Endpoint,
        under_way: UnderWay,
    ) -> None:
        target, run_id, handle = under_way
        receiver.open.set()
        before = await ended(database, notifier, target.account_id, run_id)
        await handle.result()
        copy = RawValue(await _input_of(handle))
        await _forged(stranger, "AutomationRun", copy, workflow_id=handle.id)
        await asyncio.wait_for(handle.result(), 20)
        assert len(receiver.requests) == 1
        assert await ended(database, notifier, target.account_id, run_id) == before

    async def test_that_is_copied_in_place_of_its_workflow_calls_nothing_again(
        self,
        stranger: Client,
        client: Client,
        database: Database,
        notifier: Notifier,
        receiver: Endpoint,
        new_target: NewTarget,
    ) -> None:
        """What it does is told by the record: what is under way is asked again under its id."""
        target = await new_target([webhook(receiver.url, "one"), webhook(f"{receiver.url}/held", "two")])
        [run_id] = await accept(database, target)
        notifier.notify(QUEUED_CHANNEL)
        await requested(receiver, 2)
        handle = await run_workflow(client, run_id)
        copy = RawValue(await _input_of(handle))
        await stranger.get_workflow_handle(handle.id).terminate()
        await _forged(stranger, "AutomationRun", copy, workflow_id=handle.id)
        receiver.open.set()
        view = await ended(database, notifier, target.account_id, run_id)
        assert statuses(view) == {"one": "completed", "two": "completed"}
        # What is asked twice is asked under one id.
        assert receiver.paths.count("/") == 1
        assert len({request["headers"]["webhook-id"] for request in receiver.requests}) == 2


@pytest.mark.parametrize("form", FORMS)
async def test_a_signal_is_dropped(
    stranger: Client,
    database: Database,
    notifier: Notifier,
    receiver: Endpoint,
    under_way: UnderWay,
    form: str,
) -> None:
    """No workflow of ours takes any."""
    target, run_id, handle = under_way
    await stranger.get_workflow_handle(handle.id).signal("unheard_of", args=FORMS[form]())
    receiver.open.set()
    assert statuses(await ended(database, notifier, target.account_id, run_id)) == {"call": "completed"}
    await handle.result()
    assert not await failed_tasks(handle)


@pytest.mark.parametrize("form", FORMS)
async def test_a_query_that_is_forged_is_answered_with_an_error(
    stranger: Client, receiver: Endpoint, under_way: UnderWay, form: str
) -> None:
    _, _, handle = under_way
    forged = stranger.get_workflow_handle(handle.id)
    with pytest.raises(WorkflowQueryFailedError):
        await forged.query("unheard_of", args=FORMS[form]())
    receiver.open.set()
    await handle.result()


@pytest.mark.parametrize("form", FORMS)
async def test_an_update_is_refused(
    stranger: Client, receiver: Endpoint, under_way: UnderWay, form: str
) -> None:
    _, _, handle = under_way
    forged = stranger.get_workflow_handle(handle.id)
    with pytest.raises(WorkflowUpdateFailedError):
        await forged.execute_update("unheard_of", args=FORMS[form]())
    receiver.open.set()
    await handle.result()
    assert not await failed_tasks(handle)


def call_named(label: str) -> bytes:
    return orjson.dumps({"step_id": "x", "item": None, "attempt": 1, "kind": "send", "label": label})


RESULTS = {
    "a number": b"86400.0",
    "null": b"null",
    "an end": b'{"calls": [], "over": "completed"}',
    "a wait of a day": b'{"calls": [], "seconds": 86400.0, "waits": "x"}',
    "a wait for ever": b'{"calls": [], "seconds": 1e300}',
    "a name that is too long": b'{"calls": [' + call_named("x" * 100_000) + b"]}",
    "too many calls": b'{"calls": [' + b",".join(call_named(str(n)) for n in range(3_000)) + b"]}",
}


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
async def test_a_result_that_is_forged_is_not_believed(
    stranger: Client,
    database: Database,
    notifier: Notifier,
    receiver: Endpoint,
    under_way: UnderWay,
    monkeypatch: pytest.MonkeyPatch,
    result: bytes,
) -> None:
    """Anybody can complete an activity by its id: what they say it gave is not believed."""
    monkeypatch.setattr(workflow_watch, "_UNKNOWN", timedelta(seconds=1))
    target, run_id, handle = under_way

    async def pending() -> Any:
        return (await handle.describe()).raw_description.pending_activities

    [activity] = await until(pending)
    said = Payloads(payloads=[Payload(metadata={"encoding": b"json/plain"}, data=result)])
    await stranger.workflow_service.respond_activity_task_completed_by_id(
        RespondActivityTaskCompletedByIdRequest(
            namespace="default", workflow_id=handle.id, activity_id=activity.activity_id, result=said
        )
    )
    receiver.open.set()
    assert statuses(await ended(database, notifier, target.account_id, run_id)) == {"call": "completed"}
    assert len({request["headers"]["webhook-id"] for request in receiver.requests}) == 1
    await asyncio.wait_for(handle.result(), 20)
    assert not await failed_tasks(handle)


@pytest.mark.parametrize("count", [-100, 10**9, "x"])
async def test_a_heartbeat_that_is_forged_counts_no_lost_workers(
    stranger: Client,
    database: Database,
    notifier: Notifier,
    receiver: Endpoint,
    under_way: UnderWay,
    count: object,
) -> None:
    """A run that has lost workers goes alone, and whoever takes it claims nothing else meanwhile."""
    target, run_id, handle = under_way

    async def pending() -> Any:
        return (await handle.describe()).raw_description.pending_activities

    [activity] = await until(pending)
    forged = stranger.get_async_activity_handle(
        workflow_id=handle.id, run_id=None, activity_id=activity.activity_id
    )
    await forged.heartbeat(count)
    await forged.fail(RuntimeError("forged"))
    await requested(receiver, 2)
    async with database.connection() as connection:
        cursor = await connection.execute("select lost from run_work where run_id = %s", (run_id,))
        assert await cursor.fetchall() == [{"lost": 0}]
    receiver.open.set()
    assert statuses(await ended(database, notifier, target.account_id, run_id)) == {"call": "completed"}
    await asyncio.wait_for(handle.result(), 20)


async def test_an_activity_that_is_forged_is_not_begun(stranger: Client, notifier: Notifier) -> None:
    handle = await stranger.start_activity(
        "top_up",
        f"topup/{uuid4()}/1",
        id=f"forged/{uuid4()}",
        task_queue=TASK_QUEUE,
        start_to_close_timeout=_KEEP,
        retry_policy=RetryPolicy(maximum_attempts=1),
    )
    with pytest.raises(ActivityFailureError):
        await asyncio.wait_for(handle.result(), 20)


async def test_what_an_earlier_release_sealed_without_a_workflow_still_opens(
    keyring: Keyring, client: Client, stranger: Client, notifier: Notifier
) -> None:
    [payload] = await _sealed_for(keyring, "").encode([f"topup/{uuid4()}/1"])
    handle = await _forged(stranger, "TopUp", RawValue(payload))
    assert await asyncio.wait_for(client.get_workflow_handle(handle.id).result(), 20) == "not_due"


async def test_a_schedule_starts_what_it_was_made_with(client: Client, notifier: Notifier) -> None:
    """Its arguments are sealed for the id of its action; what it starts has that id and a time."""
    await schedules.ensure(client)
    schedule = client.get_schedule_handle(f"maintenance/{PURGE_LOOKUPS}")
    await schedule.trigger()

    async def done() -> WorkflowExecutionStatus | None:
        begun = (await schedule.describe()).info.recent_actions
        if not begun:
            return None
        assert isinstance(begun[-1].action, ScheduleActionExecutionStartWorkflow)
        description = await client.get_workflow_handle(begun[-1].action.workflow_id).describe()
        return None if description.status is WorkflowExecutionStatus.RUNNING else description.status

    assert await until(done) is WorkflowExecutionStatus.COMPLETED
