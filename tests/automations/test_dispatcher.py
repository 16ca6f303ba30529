"""What becomes of claims whose process has died; the other points are in test_dispatch_points."""

from uuid import UUID

from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import PollWorkflowTaskQueueRequest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey

from database import Database
from dispatcher import Dispatcher
from language.records import StepRecord
from models import batches
from models.identifiers import new_id
from sealing import Keyring
from settings import Settings
from temporal.client import TASK_QUEUE, connect
from tests.automations.engine import Endpoint, NewTarget, accept, ended, until, webhook, working
from workflows.messages import Batch

PROBLEMS = SearchAttributeKey.for_keyword_list("TemporalReportedProblems")


async def claimed(database: Database) -> Batch:
    """A claim that has committed and whose process then died."""
    async with database.transaction() as connection:
        claim = await batches.claim(connection)
    assert claim is not None
    return claim


async def make_stale(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute("update runs set progressed_at = now() - interval '31 seconds'")


async def batch_of(database: Database, run_id: UUID) -> UUID:
    async with database.connection() as connection:
        cursor = await connection.execute("select batch_id from runs where id = %s", (run_id,))
        row = await cursor.fetchone()
    assert row is not None
    return row["batch_id"]


async def test_a_claim_that_was_never_started_is_started_under_its_own_id(
    open_settings: Settings,
    client: Client,
    database: Database,
    keyring: Keyring,
    new_target: NewTarget,
    receiver: Endpoint,
) -> None:
    target = await new_target([webhook(receiver.url)])
    [run_id] = await accept(database, target)
    claim = await claimed(database)
    await make_stale(database)
    async with working(open_settings, client, database, keyring) as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
    assert view.status == "completed" and len(receiver.requests) == 1
    assert await batch_of(database, run_id) == claim.batch_id


async def test_the_runs_of_a_terminated_batch_get_a_new_batch_and_keep_their_finished_steps(
    open_settings: Settings,
    client: Client,
    database: Database,
    keyring: Keyring,
    new_target: NewTarget,
    receiver: Endpoint,
) -> None:
    steps = [
        webhook(f"{receiver.url}/1", "one"),
        webhook(f"{receiver.url}/2", "two", body="{{ one.status }}"),
    ]
    target = await new_target(steps)
    [run_id] = await accept(database, target)
    claim = await claimed(database)
    dispatcher = Dispatcher(database, client, new_id(), eager=False)
    await dispatcher.begin(claim)
    await record_first_step(database, claim)
    await client.get_workflow_handle(f"automation/{claim.batch_id}").terminate()
    await make_stale(database)
    async with working(open_settings, client, database, keyring) as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
    assert view.status == "completed"
    assert [request["path"] for request in receiver.requests] == ["/2"]
    assert receiver.requests[0]["body"] == "200"
    assert await batch_of(database, run_id) != claim.batch_id


async def record_first_step(database: Database, claim: Batch) -> None:
    row = claim.rows[0]
    record = StepRecord(
        run_id=row.run_id, step_id="one", position=0, status="completed",
        output={"status": 200, "headers": {}, "body": None},
        started_at=row.started_at, completed_at=row.started_at,
    )  # fmt: skip
    async with database.connection() as connection:
        await batches.record(connection, claim.batch_id, [record])


async def test_a_batch_that_goes_on_is_left_alone(
    open_settings: Settings,
    client: Client,
    database: Database,
    keyring: Keyring,
    new_target: NewTarget,
    receiver: Endpoint,
) -> None:
    target = await new_target([webhook(receiver.url)])
    [run_id] = await accept(database, target)
    claim = await claimed(database)
    dispatcher = Dispatcher(database, client, new_id(), eager=False)
    await dispatcher.begin(claim)
    await dispatcher.examine(claim)
    handle = client.get_workflow_handle(f"automation/{claim.batch_id}")
    assert (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
    assert await batch_of(database, run_id) == claim.batch_id
    async with working(open_settings, client, database, keyring) as notifier:
        assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"


async def test_the_runs_of_a_batch_that_temporal_does_not_take_go_each_alone(
    client: Client, database: Database, new_target: NewTarget, nothing_waits: None
) -> None:
    """It would be refused for ever: no probe could start it."""
    await accept(database, await new_target(), 2)
    claim = await claimed(database)
    too_large = claim.model_copy(update={"definition": {"name": "x" * 3_000_000}})
    await Dispatcher(database, client, new_id()).begin(too_large)
    assert [len((await claimed(database)).rows) for _ in range(2)] == [1, 1]


async def test_a_batch_whose_tasks_take_too_long_is_left_alone(
    impatient: Settings, database: Database, keyring: Keyring, new_target: NewTarget
) -> None:
    """As after a restart, when all is replayed at once: nothing is wrong with the batch."""
    client = await connect(impatient, keyring)
    target = await new_target()
    [run_id] = await accept(database, target)
    claim = await claimed(database)
    dispatcher = Dispatcher(database, client, new_id(), eager=False)
    await dispatcher.begin(claim)
    handle = client.get_workflow_handle(f"automation/{claim.batch_id}")
    asked = PollWorkflowTaskQueueRequest(
        namespace=client.namespace, task_queue=TaskQueue(name=TASK_QUEUE), identity="too slow"
    )

    async def reported() -> bool:
        await client.workflow_service.poll_workflow_task_queue(asked)
        return bool((await handle.describe()).typed_search_attributes.get(PROBLEMS))

    await until(reported, 60)
    await dispatcher.begin(claim)
    assert (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
    assert await batch_of(database, run_id) == claim.batch_id
    async with working(impatient, client, database, keyring) as notifier:
        assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
