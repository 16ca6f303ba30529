"""A worker: runs the workflows and activities, and dispatches the runs that wait."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import PollerBehaviorSimpleMaximum, Worker, WorkerDeploymentConfig

import logs
import process
from activities.answering import Answering
from activities.build import name_build
from activities.credits import CreditActivities, Granting
from activities.deliveries import DeliveryActivities
from activities.executor import Executor
from activities.halting import FailureWatch, Halt
from activities.jobs import JobActivities
from activities.loop_lag import LoopLag
from activities.maintenance import MaintenanceActivities
from activities.monitor_chores import MonitorChores
from activities.monitors import MonitorActivities
from activities.performing import Performer
from activities.run_executor import RunExecutor
from activities.runs import RunActivities
from activities.schedules import ScheduleActivities
from activities.writing import RunWriter
from database import Database, Notifier
from delivery_dispatcher import DeliveryDispatcher
from dispatcher import Dispatcher
from job_dispatcher import JobDispatcher
from models import root_key
from models.identifiers import new_id
from monitor_dispatcher import MonitorDispatcher
from outbound.client import Outbound
from providers.lookup import Lookups
from schedule_dispatcher import ScheduleDispatcher
from sealing import Keyring
from services.event_checks import EventChecks
from services.process_pool import ProcessPool
from settings import Settings
from temporal import schedules
from temporal.client import TASK_QUEUE, connect
from temporal.sandbox import workflow_runner
from workflows.automations import AutomationBatch
from workflows.credits import TopUp
from workflows.deliveries import DeliveryBatch
from workflows.jobs import BulkJob
from workflows.maintenance import Maintenance
from workflows.messages import WAKING_QUEUE
from workflows.monitors import MonitorRun, ScheduledMonitor
from workflows.schedules import ScheduledTrigger

_log = logs.get(__name__)
_GRACE = timedelta(seconds=20)
# How long a task waits for the worker that has its workflow in memory: the price of losing that worker.
_STICKY = timedelta(seconds=2)
# The deadlock detector counts waiting for the GIL, so few tasks at once; eager starts need a slot beyond
# those of the pollers.
_WORKFLOW_SLOTS, _WORKFLOW_POLLERS = 14, 4
# They only wait: for as many batches as there can be runs and deliveries at work.
_ACTIVITY_SLOTS = 2048
# The SDK would hold heartbeats back for four fifths of the time after which a worker counts as lost.
_HEARTBEATS_HELD_BACK = timedelta(seconds=3)
CACHED_WORKFLOWS = 1000


async def run(settings: Settings) -> None:
    """Work until SIGTERM or SIGINT, then finish what is at work within the grace period."""
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
        notifier = Notifier(database)
        notifier.start()
        stack.push_async_callback(notifier.stop)
        outbound = await stack.enter_async_context(Outbound(settings))
        lookups = Lookups(settings, database, keyring, outbound)
        await lookups.open()
        stack.push_async_callback(lookups.close)
        client = await connect(settings, keyring)
        process.spare_what_stays()
        await work(settings, client, database, keyring, notifier, outbound, lookups, stop)


async def work(
    settings: Settings,
    client: Client,
    database: Database,
    keyring: Keyring,
    notifier: Notifier,
    outbound: Outbound,
    lookups: Lookups,
    stop: asyncio.Event,
    *,
    max_cached_workflows: int = CACHED_WORKFLOWS,
) -> None:
    """Poll and dispatch until `stop` is set. Stopping: claim nothing more, then drain.

    `max_cached_workflows`: how many are kept in memory between their tasks; with 0, every task replays.
    """
    worker_id, failures, pool, lag = new_id(), FailureWatch(), ProcessPool(), LoopLag()
    writer = RunWriter(database, notifier)
    halt = Halt(database, keyring, failures)
    build = settings.build_id or name_build(Path(__file__).parent)
    answering = Answering(database, notifier, EventChecks(pool))
    performer = Performer(database, keyring, outbound, lookups, pool, answering, settings.address)
    one_by_one = RunExecutor(database, writer, performer, failures, build)
    executor = Executor(database, notifier, writer, one_by_one, failures, worker_id=worker_id, build=build)
    eager = settings.build_id is None
    dispatcher = Dispatcher(database, client, executor, halt, lag, worker_id, eager=eager)
    runs = RunActivities(database, notifier, executor)
    delivering = DeliveryDispatcher(database, client, halt, lag, eager=eager)
    deliveries = DeliveryActivities(
        database, notifier, outbound, keyring, settings.webhook_schedule, delivering.freed
    )
    watching = MonitorActivities(database, notifier, lookups)
    monitoring = MonitorDispatcher(database, client, watching, halt, lag, eager=eager)
    scheduled = ScheduleActivities(database, client, notifier)
    scheduling = ScheduleDispatcher(database, client, watching, scheduled)
    looking_up = JobActivities(database, notifier, lookups, keyring)
    jobs = JobDispatcher(database, client, looking_up, halt, lag, eager=eager)
    credits = CreditActivities(database, Granting())
    chores = MaintenanceActivities(settings, database)
    monitor_chores = MonitorChores(database, settings.retention_days)
    worker = Worker(
        client,
        task_queue=TASK_QUEUE,
        workflows=[
            AutomationBatch,
            BulkJob,
            DeliveryBatch,
            Maintenance,
            MonitorRun,
            ScheduledMonitor,
            ScheduledTrigger,
            TopUp,
        ],
        activities=[
            runs.advance_runs,
            deliveries.send_deliveries,
            watching.watch_targets,
            watching.finish_monitor_run,
            watching.accept_due_run,
            looking_up.look_up_rows,
            looking_up.finish_job,
            credits.top_up,
            chores.refresh_datasets,
            chores.purge_lookups,
            chores.tend_history,
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
    waking = Worker(
        client, task_queue=WAKING_QUEUE, activities=[runs.queue_due, deliveries.queue_due_deliveries]
    )
    await writer.open()
    await deliveries.open()
    try:
        async with waking, worker:
            await schedules.ensure(client)
            await halt.check()
            lag.start()
            executor.start()
            dispatcher.start()
            delivering.start()
            monitoring.start()
            scheduling.start()
            jobs.start()
            _log.info("worker_ready")
            await stop.wait()
            dispatchers = (dispatcher, delivering, monitoring, scheduling, jobs)
            await asyncio.gather(*(one.stop() for one in dispatchers))
            await executor.drain(_GRACE.total_seconds())
            await executor.stop()
    finally:
        lag.stop()
        await pool.close()
        await deliveries.close()
        await writer.close()
    _log.info("worker_stopped")


def _deployment(settings: Settings) -> WorkerDeploymentConfig | None:
    """Worker versioning, when the operator names a build."""
    if settings.build_id is None:
        return None
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name="vedette", build_id=settings.build_id),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE,
    )
