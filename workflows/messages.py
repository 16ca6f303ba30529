"""What goes in and out of workflows and activities: ids and times, and the names by which they are called."""

from dataclasses import dataclass
from uuid import UUID

AUTOMATION_BATCH = "AutomationBatch"
ADVANCE_RUNS, QUEUE_DUE = "advance_runs", "queue_due"
DELIVERY_BATCH = "DeliveryBatch"
SEND_DELIVERIES, QUEUE_DUE_DELIVERIES = "send_deliveries", "queue_due_deliveries"
REFRESH_DATASETS, PURGE_LOOKUPS = "refresh_datasets", "purge_lookups"
TEND_HISTORY, PURGE_MONITORS, RECONCILE_SCHEDULES = "tend_history", "purge_monitors", "reconcile_schedules"
PURGE_JOBS = "purge_jobs"
MONITOR_RUN, WATCH_TARGETS, FINISH_MONITOR_RUN = "MonitorRun", "watch_targets", "finish_monitor_run"
SCHEDULED_MONITOR, ACCEPT_DUE_RUN = "ScheduledMonitor", "accept_due_run"
SCHEDULED_TRIGGER, ACCEPT_SCHEDULED_RUN = "ScheduledTrigger", "accept_scheduled_run"
BULK_JOB, LOOK_UP_ROWS, FINISH_JOB = "BulkJob", "look_up_rows", "finish_job"
WAKING_QUEUE = "vedette-waking"
"""The task queue of what queues the due: it is never behind the work that it wakes."""


@dataclass(frozen=True)
class MonitorRunInput:
    """A monitor's run.

    Attributes:
        run_id: of it.
        chunks: how many its targets are.
        first: the number of the first of these that is left.
    """

    run_id: UUID
    chunks: int
    first: int = 0


@dataclass(frozen=True)
class BulkJobInput:
    """A bulk job.

    Attributes:
        job_id: of it.
        chunks: how many its targets are.
        first: the number of the first of these that is left.
    """

    job_id: UUID
    chunks: int
    first: int = 0


@dataclass(frozen=True)
class Looked:
    """What has become of a chunk of a bulk job.

    Attributes:
        seconds: how long it waits for its sources; 0 when it is done.
        over: the job has ended.
    """

    seconds: float = 0.0
    over: bool = False
