"""The worker process: executes workflows and activities, and dispatches waiting work."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path

from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import PollerBehaviorSimpleMaximum, Worker, WorkerDeploymentConfig

import logs
import process
from activities.credits import CreditActivities, Granting
from activities.deliveries import DeliveryActivities
from activities.jobs import JobActivities
from activities.maintenance import MaintenanceActivities
from activities.monitor_chores import MonitorChores
from activities.monitors import MonitorActivities
from activities.own_runs import OwnRunActivities
from activities.schedules import ScheduleActivities
from database import AWAY as DATABASE_AWAY
from database import Database, Notifier
from dispatch.deliveries import DeliveryDispatcher
from dispatch.jobs import JobDispatcher
from dispatch.monitors import MonitorDispatcher
from dispatch.runs import Dispatcher
from dispatch.schedules import ScheduleDispatcher
from engine.evaluation import be_ready
from execution.attempts import Performer
from execution.build import name_build
from execution.claim_gate import ClaimGate, FailureWatch
from execution.executor import Executor
from execution.hand_over import OwnPlaces
from execution.long_waits import WaitGiver
from execution.loop_lag import LoopLag
from execution.run_executor import RunExecutor
from execution.run_recorder import RunRecorder
from execution.step_answers import StepAnswers
from migrations.upgrade import schema_problem
from models.identifiers import new_id
from models.installation import root_key
from models.installation.schema import find_revision
from outbound.client import Outbound
from outbound.lease import Lost
from providers.lookup.lookup import Lookups
from sealing import Keyring
from services.announcing import KeyAnnouncer
from services.event_checks import EventChecks
from services.process_pool import ProcessPool
from settings import ExitCode, Settings, StartError
from temporal import schedules
from temporal.client import TASK_QUEUE, TEMPORAL_AWAY, connect
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
# The pauses between attempts to reach Temporal at the start.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 30.0
CACHED_WORKFLOWS = 1000

Prepare = Callable[[], Awaitable[object]]
"""Prepares the Temporal server; raises StartError while it is away."""


async def run(settings: Settings, prepare: Prepare | None = None) -> None:
    """Work until SIGTERM or SIGINT, then finish the work under way within the grace period.

    Args:
        settings: with a database and a Temporal server.
        prepare: prepares that server.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    assert settings.database_url is not None
    async with AsyncExitStack() as stack:
        database = Database(settings.database_url.get_secret_value(), name="vedette worker", size=16)
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
        services = (database, keyring, notifier, outbound, lookups, pool, stop)
        await work(settings, client, *services, prepare=prepare)


async def work(
    settings: Settings,
    client: Client,
    database: Database,
    keyring: Keyring,
    notifier: Notifier,
    outbound: Outbound,
    lookups: Lookups,
    pool: ProcessPool,
    stop: asyncio.Event,
    *,
    prepare: Prepare | None = None,
    max_cached_workflows: int = CACHED_WORKFLOWS,
) -> None:
    """Dispatch until `stop` is set, and poll once Temporal is there. Then stop claiming, and drain.

    `prepare`: as for `run`. `max_cached_workflows`: the number of workflows kept in memory between their
    tasks; with 0, every task replays.
    """
    worker_id, failures, lag = new_id(), FailureWatch(), LoopLag()
    writer = RunRecorder(database, notifier)
    writer.on_error = failures.note_fault
    claim_gate = ClaimGate(database, keyring, failures)
    build = settings.build_id or name_build(Path(__file__).parent)
    answering = StepAnswers(database, notifier, EventChecks(pool), settings)
    performer = Performer(database, keyring, outbound, lookups, pool, answering, settings.address)
    one_by_one = RunExecutor(database, writer, performer, failures, build)
    handing = OwnPlaces(database, client, settings.execution)
    executor = Executor(database, writer, one_by_one, failures, handing, worker_id=worker_id)
    outbound.lease = lambda: executor.shift or Lost()
    eager = settings.build_id is None
    waits = WaitGiver(database, client, settings.execution, settings.temporal_waits)
    dispatcher = Dispatcher(database, client, executor, claim_gate, lag, worker_id, notifier, handing, waits)
    own = OwnRunActivities(database, notifier, writer, performer, executor, failures, build)
    own.on_left = handing.free_place
    delivering = DeliveryDispatcher(database, client, claim_gate, lag, eager=eager)
    deliveries = DeliveryActivities(
        database, notifier, outbound, keyring, settings.webhook_schedule, delivering.on_capacity_freed
    )
    watching = MonitorActivities(database, notifier, lookups)
    monitoring = MonitorDispatcher(database, client, watching, claim_gate, lag, eager=eager)
    scheduled = ScheduleActivities(database, client, notifier)
    scheduling = ScheduleDispatcher(database, client, watching, scheduled)
    looking_up = JobActivities(database, notifier, lookups, keyring)
    jobs = JobDispatcher(database, client, looking_up, claim_gate, lag, eager=eager)
    credits = CreditActivities(database, Granting())
    chores = MaintenanceActivities(settings, database)
    monitor_chores = MonitorChores(database, settings.retention_days)
    new_worker = partial(
        Worker,
        client,
        task_queue=TASK_QUEUE,
        workflows=[
            AutomationRun,
            BulkJob,
            DeliveryBatch,
            Maintenance,
            MonitorRun,
            ScheduledMonitor,
            ScheduledTrigger,
            TopUp,
        ],
        activities=[
            own.decide_next,
            own.perform_step,
            own.wake_run,
            own.cancel_run,
            deliveries.send_deliveries,
            watching.watch_chunk,
            watching.watch_targets,
            watching.finish_monitor_run,
            watching.accept_due_run,
            looking_up.look_up_rows,
            looking_up.finish_job,
            credits.top_up,
            chores.refresh_datasets,
            chores.purge_lookups,
            chores.maintain_partitions,
            chores.purge_jobs,
            monitor_chores.purge_monitors,
            scheduled.accept_scheduled_run,
            scheduled.reconcile_schedules,
        ],
        workflow_runner=workflow_runner(),
        max_cached_workflows=max_cached_workflows,
        max_concurrent_workflow_tasks=_WORKFLOW_SLOTS,
        workflow_task_poller_behavior=PollerBehaviorSimpleMaximum(_WORKFLOW_POLLERS),
        max_concurrent_activities=_ACTIVITY_SLOTS,
        max_heartbeat_throttle_interval=_HEARTBEATS_HELD_BACK,
        graceful_shutdown_timeout=_GRACE,
        sticky_queue_schedule_to_start_timeout=_STICKY,
        deployment_config=_deployment(settings),
    )
    new_waker = partial(
        Worker,
        client,
        task_queue=WAKING_QUEUE,
        activities=[deliveries.queue_due_deliveries],
    )
    dispatchers = (dispatcher, delivering, monitoring, scheduling, jobs)
    await writer.open()
    await deliveries.open()
    await dispatcher.open()
    watchdog = PoolWatchdog(database, writer.database, deliveries.writer)
    watchdog.start()
    try:
        async with AsyncExitStack() as polling:
            await claim_gate.check()
            schema = asyncio.create_task(_watch_schema(database, stop), name="schema")
            lag.start()
            executor.start()

            async def poll() -> None:
                await polling.enter_async_context(new_waker())
                await polling.enter_async_context(new_worker())

            if (away := await _reach(client, prepare)) is None:
                await poll()
            # Claimed work is done even while Temporal is away; Temporal gets it later.
            for one in dispatchers:
                one.start()
            if away is not None and await _reached(client, prepare, stop, away):
                await poll()
            if not stop.is_set():
                _log.info("worker_ready")
            await stop.wait()
            schema.cancel()
            writer.stopping = True
            await asyncio.gather(*(one.stop() for one in dispatchers))
            # Polling has stopped. Activities under way have the same grace period as runs.
            await asyncio.gather(polling.aclose(), executor.drain(_GRACE.total_seconds()))
            await executor.stop()
    finally:
        lag.stop()
        await watchdog.stop()
        await deliveries.close()
        await writer.close()
    _log.info("worker_stopped")
    if schema.done() and not schema.cancelled():
        raise StartError(schema.result(), ExitCode.DATABASE)


async def _watch_schema(database: Database, stop: asyncio.Event) -> str:
    """Set `stop` once this release cannot work with the schema any more; return the problem."""
    while True:
        await asyncio.sleep(_SCHEMA_SECONDS)
        try:
            async with database.connection() as connection:
                problem = schema_problem(await find_revision(connection))
        except DATABASE_AWAY:
            continue
        if problem:
            _log.error("schema_changed", problem=problem)
            stop.set()
            return problem


async def _reach(client: Client, prepare: Prepare | None) -> str | None:
    """Connect to Temporal, and prepare it; return the reason if it is away."""
    try:
        if prepare is not None:
            await prepare()
        await schedules.ensure(client)
    except StartError as error:
        if error.exit_code is not ExitCode.TEMPORAL:
            raise
        return str(error)
    except TEMPORAL_AWAY as error:
        return str(error)
    # The SDK refuses a lazy client for workers, because it may be unconnected. This one is connected.
    client.service_client.config.lazy = False
    return None


async def _reached(client: Client, prepare: Prepare | None, stop: asyncio.Event, away: str | None) -> bool:
    """Try until Temporal is there, at growing intervals; return whether it was before `stop` was set."""
    pause, address = _FIRST_PAUSE_SECONDS, client.service_client.config.target_host
    while away is not None and not stop.is_set():
        _log.warning("waits_for_temporal", address=address, reason=away, again_seconds=pause)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        away = await _reach(client, prepare)
    return away is None


def _deployment(settings: Settings) -> WorkerDeploymentConfig | None:
    """Return the options of worker versioning, if the operator names a build."""
    if settings.build_id is None:
        return None
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name="vedette", build_id=settings.build_id),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE,
    )
