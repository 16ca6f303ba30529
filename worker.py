"""The worker process: executes workflows and activities, and dispatches waiting work."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import PollerBehaviorSimpleMaximum, Worker, WorkerDeploymentConfig

import logs
import process
import telemetry
from activities.credits import CreditActivities, Granting
from activities.deliveries import DeliveryActivities
from activities.jobs import JobActivities
from activities.maintenance import MaintenanceActivities
from activities.monitor_chores import MonitorChores
from activities.monitors import MonitorActivities
from activities.own_runs import OwnRunActivities
from activities.schedules import ScheduleActivities
from database import AWAY as DATABASE_AWAY
from database import Database
from dispatch.bulk_actions import BulkActionLoop
from dispatch.deliveries import DeliveryDispatcher
from dispatch.jobs import JobDispatcher
from dispatch.loop import DispatchServices
from dispatch.monitors import MonitorDispatcher
from dispatch.runs import Dispatcher
from dispatch.schedules import ScheduleDispatcher
from engine.evaluation import be_ready
from engine.run_room import ProcessRoom
from execution.admission import Admission
from execution.attempts import Performer
from execution.build import name_build
from execution.claim_gate import ClaimGate, FailureWatch
from execution.executor import Executor
from execution.hand_over import OwnPlaces
from execution.long_waits import WaitGiver
from execution.loop_lag import LoopLag
from execution.polling import Polling
from execution.run_executor import RunServices
from execution.run_recorder import RunRecorder
from execution.run_secrets import RunSecrets
from execution.step_answers import StepAnswers
from migrations.revisions import schema_problem
from models.identifiers import new_id
from models.installation import root_key
from models.installation.connections import OF_WORKER
from models.installation.schema import find_schema
from models.runs.builds import BuildState
from models.runs.run_bounds import UnfinishedRuns
from notifications import Notifier
from outbound.client import Outbound
from outbound.lease import Lost
from providers.lookup.lookup import Lookups
from sealing import Keyring
from services.announcing import KeyAnnouncer
from services.event_checks import EventChecks
from services.figure_writer import FigureWriter
from services.process_pool import ProcessPool
from settings import ExitCode, Settings, StartError
from temporal.client import TASK_QUEUE, connect
from temporal.reaching import Prepare, keep_prepared, reach, wait_until_reached
from temporal.sandbox import workflow_runner
from watchdog import PoolWatchdog
from workflows.credits import TopUp
from workflows.deliveries import DeliveryBatch
from workflows.jobs import BulkJob
from workflows.maintenance import Maintenance
from workflows.messages import WAKING_QUEUE
from workflows.monitors import MonitorRun, ScheduledMonitor
from workflows.runs import AutomationRun
from workflows.schedules import ScheduledTrigger

_log = logs.get(__name__)
_GRACE = timedelta(seconds=20)
# The longest wait for the SDK's workers when this process stops.
_STOP_SECONDS = 25.0
# A statement to a server that hangs ends by no timeout. Other workers take what this one leaves.
_LONGEST_STOP_SECONDS = 28.0
# The time that a task waits for the worker that has its workflow in memory: the cost of losing that worker.
_STICKY = timedelta(seconds=2)
# The deadlock detector counts waiting for the GIL, so there are few tasks at once; eager starts need a slot
# beyond those of the pollers.
_WORKFLOW_SLOTS, _WORKFLOW_POLLERS = 48, 12
# Activities mostly wait: there are slots for as many batches as there can be deliveries at work.
_ACTIVITY_SLOTS = 2048
# The SDK would delay heartbeats for four fifths of the time after which a worker counts as lost.
_HEARTBEATS_HELD_BACK = timedelta(seconds=3)
_SCHEMA_SECONDS = 1.0
# The time that spans get to be sent when the worker stops.
_SPANS_SECONDS = 5.0
# Eight more connections write, claim, record deliveries, listen and notify.
_POOL_SIZE = OF_WORKER - 8
# After this time a start goes on without Temporal.
_FIRST_REACH_SECONDS = 2.0
CACHED_WORKFLOWS = 1000
_WORKFLOWS = [
    AutomationRun, BulkJob, DeliveryBatch, Maintenance, MonitorRun, ScheduledMonitor, ScheduledTrigger, TopUp,
]  # fmt: skip


@dataclass(frozen=True)
class Services:
    """The open resources that the parts of a worker share."""

    settings: Settings
    client: Client
    database: Database
    keyring: Keyring
    notifier: Notifier
    outbound: Outbound
    lookups: Lookups
    pool: ProcessPool


class Parts:
    """The parts of a worker: what takes runs forward, the loops that claim, the activities."""

    def __init__(self, services: Services) -> None:
        settings, client, database = services.settings, services.client, services.database
        notifier, keyring, outbound = services.notifier, services.keyring, services.outbound
        self.lag, failures = LoopLag(), FailureWatch()
        build = settings.build_id or name_build(Path(__file__).parent)
        unknown = BuildState.ADMITTED if settings.admit_builds == "auto" else BuildState.WAITING
        self.admission = Admission(build, unknown)
        self.claim_gate = ClaimGate(database, keyring, failures, self.admission)
        # Worker versioning would be bypassed by an eager start.
        eager = settings.build_id is None
        dispatch = DispatchServices(database, client, self.claim_gate, self.lag, eager)
        self._make_executor(services, dispatch, failures)
        self._delivering = DeliveryDispatcher(dispatch)
        self.deliveries = DeliveryActivities(
            database, notifier, outbound, keyring, settings.webhook_schedule,
            self._delivering.on_capacity_freed,
        )  # fmt: skip
        self._monitors = MonitorActivities(database, notifier, services.lookups)
        self._schedules = ScheduleActivities(database, client, notifier)
        self._jobs = JobActivities(database, notifier, services.lookups, keyring)
        self._credits = CreditActivities(database, Granting())
        self._chores = MaintenanceActivities(settings, database)
        self._monitor_chores = MonitorChores(database, settings.retention_days)
        self.loops = (
            self._dispatcher,
            self._delivering,
            MonitorDispatcher(dispatch, self._monitors),
            ScheduleDispatcher(database, client, self._monitors, self._schedules),
            JobDispatcher(dispatch, self._jobs),
            BulkActionLoop(dispatch, notifier, UnfinishedRuns(settings.max_unfinished_runs)),
        )
        self._watchdog = PoolWatchdog(database, self.recorder.database, self.deliveries.writer)
        self._figures = FigureWriter(database)

    def _make_executor(self, services: Services, dispatch: DispatchServices, failures: FailureWatch) -> None:
        """Make what takes runs forward by either carrier, and the loop that claims them."""
        settings, client, database = services.settings, services.client, services.database
        notifier, worker_id = services.notifier, new_id()
        self.recorder = RunRecorder(database, notifier)
        self.recorder.on_error = failures.note_fault
        answers = StepAnswers(database, notifier, EventChecks(services.pool), settings)
        secrets = RunSecrets(database, services.keyring, settings.address)
        performer = Performer(database, services.outbound, services.lookups, services.pool, answers, secrets)
        runs = RunServices(database, self.recorder, performer, failures, self.admission, ProcessRoom())
        places = OwnPlaces(database, client, settings.execution)
        executor = Executor(runs, places, worker_id)
        services.outbound.lease = lambda: executor.shift or Lost()
        waits = WaitGiver(database, client, settings.execution, settings.temporal_waits)
        self.executor = executor
        self._dispatcher = Dispatcher(dispatch, executor, worker_id, notifier, places, waits)
        self._own = OwnRunActivities(runs, notifier, executor, places.free_place)

    def is_fit(self) -> bool:
        """Return whether this process may take tasks from Temporal."""
        return self.admission.is_admitted and not self.executor.is_cut_off

    @property
    def activities(self) -> list[Callable[..., Any]]:
        """All activities but the one of `WAKING_QUEUE`."""
        return [
            self._own.decide_next,
            self._own.perform_step,
            self._own.wake_run,
            self._own.cancel_run,
            self.deliveries.send_deliveries,
            self._monitors.watch_chunk,
            self._monitors.watch_targets,
            self._monitors.finish_monitor_run,
            self._monitors.accept_due_run,
            self._jobs.look_up_rows,
            self._jobs.finish_job,
            self._credits.top_up,
            self._chores.refresh_datasets,
            self._chores.purge_lookups,
            self._chores.maintain_partitions,
            self._chores.purge_jobs,
            self._monitor_chores.purge_monitors,
            self._schedules.accept_scheduled_run,
            self._schedules.reconcile_schedules,
        ]

    @asynccontextmanager
    async def open_connections(self) -> AsyncGenerator[None]:
        """Connect the parts that have connections of their own, and watch these."""
        await self.recorder.database.open()
        await self.deliveries.writer.open()
        await self._dispatcher.open()
        self._watchdog.start()
        self._figures.start()
        try:
            yield
        finally:
            self.lag.stop()
            await self._watchdog.stop()
            await self._figures.stop()
            await self.deliveries.writer.close()
            await self.recorder.database.close()

    def start(self) -> None:
        """Begin a shift. The loops are started by themselves."""
        self.lag.start()
        self.executor.start()

    async def stop(self, polling: Polling) -> None:
        """Stop claiming and polling, give the work under way the grace period, then queue what is left."""
        self.recorder.stopping = True
        await asyncio.gather(*(one.stop() for one in self.loops))
        # Activities under way have the same grace period as runs.
        try:
            await asyncio.gather(polling.stop(_STOP_SECONDS), self.executor.drain(_GRACE.total_seconds()))
        finally:
            await self.executor.stop()


async def run(settings: Settings, prepare: Prepare | None = None) -> None:
    """Work until SIGTERM or SIGINT, then finish the work under way within the grace period.

    Args:
        settings: with a database and a Temporal server.
        prepare: prepares that server.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def begin_stop() -> None:
        stop.set()
        process.leave_after(_LONGEST_STOP_SECONDS, _log.warning)

    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, begin_stop)
    assert settings.database_url is not None
    telemetry.start()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_send_spans)
        database = Database(settings.database_url.get_secret_value(), name="vedette worker", size=_POOL_SIZE)
        await database.open()
        stack.push_async_callback(database.close)
        async with database.connection() as connection:
            keyring = await root_key.open_keyring(connection, settings)
        announcer = KeyAnnouncer(database, keyring, "worker")
        await announcer.open()
        stack.push_async_callback(announcer.close)
        notifier = Notifier(database)
        notifier.start()
        stack.push_async_callback(notifier.stop)
        outbound = await stack.enter_async_context(Outbound(settings))
        lookups = Lookups(settings, database, keyring, outbound)
        await lookups.open()
        stack.push_async_callback(lookups.close)
        client = await connect(settings, keyring, lazy=True)
        pool = ProcessPool()
        stack.push_async_callback(pool.close)
        await pool.warm(be_ready)
        process.freeze_gc()
        services = Services(settings, client, database, keyring, notifier, outbound, lookups, pool)
        await work(services, stop, prepare=prepare)


async def work(
    services: Services,
    stop: asyncio.Event,
    *,
    prepare: Prepare | None = None,
    max_cached_workflows: int = CACHED_WORKFLOWS,
) -> None:
    """Dispatch until `stop` is set, and poll once Temporal is there. Then stop claiming, and drain.

    Args:
        services: open, and left open.
        stop: ends the work.
        prepare: as for `run`.
        max_cached_workflows: the number of workflows kept in memory between their tasks; with 0, every task
            replays.
    """
    client, parts = services.client, Parts(services)
    polling = Polling(
        lambda: _new_workers(services, parts, max_cached_workflows),
        parts.is_fit,
        lambda: wait_until_reached(client, prepare, reach(client, prepare)),
    )
    async with parts.open_connections():
        await parts.claim_gate.check()
        schema = asyncio.create_task(_watch_schema(services.database, stop), name="schema")
        parts.start()
        reaching = asyncio.create_task(reach(client, prepare))
        # A server that hangs would cost the timeout of each request.
        await asyncio.wait({reaching}, timeout=_FIRST_REACH_SECONDS)
        if is_there := reaching.done() and reaching.result() is None:
            await polling.start(stop.set)
        # Claimed work is done even while Temporal is away; Temporal gets it later.
        for one in parts.loops:
            one.start()
        if not is_there:
            reached = asyncio.create_task(wait_until_reached(client, prepare, reaching))
            if await _comes_before(stop, reached):
                await polling.start(stop.set)
        keeping = asyncio.create_task(keep_prepared(client, prepare), name="keep prepared")
        if not stop.is_set():
            _log.info("worker_ready")
        await stop.wait()
        keeping.cancel()
        schema.cancel()
        await parts.stop(polling)
    _log.info("worker_stopped")
    if schema.done() and not schema.cancelled():
        raise StartError(schema.result(), ExitCode.DATABASE)


async def _comes_before(stop: asyncio.Event, reached: asyncio.Task[None]) -> bool:
    """Wait for the task, at most until `stop` is set, which cancels it; return whether it is done."""
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({reached, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if is_reached := reached.done():
            reached.result()
        return is_reached
    finally:
        reached.cancel()
        stopped.cancel()


def _new_workers(services: Services, parts: Parts, max_cached_workflows: int) -> Iterator[Worker]:
    """Make the workers of the SDK: of the queue that wakes deliveries, and of all else."""
    yield Worker(services.client, task_queue=WAKING_QUEUE, activities=[parts.deliveries.queue_due_deliveries])
    yield Worker(
        services.client,
        task_queue=TASK_QUEUE,
        workflows=_WORKFLOWS,
        activities=parts.activities,
        workflow_runner=workflow_runner(),
        max_cached_workflows=max_cached_workflows,
        max_concurrent_workflow_tasks=_WORKFLOW_SLOTS,
        workflow_task_poller_behavior=PollerBehaviorSimpleMaximum(_WORKFLOW_POLLERS),
        max_concurrent_activities=_ACTIVITY_SLOTS,
        max_heartbeat_throttle_interval=_HEARTBEATS_HELD_BACK,
        graceful_shutdown_timeout=_GRACE,
        sticky_queue_schedule_to_start_timeout=_STICKY,
        deployment_config=_deployment(services.settings),
    )


async def _send_spans() -> None:
    """Send the spans that wait; the process ends without those that take too long."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.to_thread(telemetry.stop), _SPANS_SECONDS)


async def _watch_schema(database: Database, stop: asyncio.Event) -> str:
    """Set `stop` once this release cannot work with the schema any more; return the problem."""
    while True:
        await asyncio.sleep(_SCHEMA_SECONDS)
        try:
            async with database.connection() as connection:
                problem = schema_problem(await find_schema(connection))
        except DATABASE_AWAY:
            continue
        if problem:
            _log.error("schema_changed", problem=problem)
            stop.set()
            return problem


def _deployment(settings: Settings) -> WorkerDeploymentConfig | None:
    """Return the options of worker versioning, if the operator names a build."""
    if settings.build_id is None:
        return None
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name="vedette", build_id=settings.build_id),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE,
    )
