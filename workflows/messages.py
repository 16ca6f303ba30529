"""The messages of workflows and activities: ids, times, and the names by which they are called."""

from dataclasses import dataclass, field
from uuid import UUID

AUTOMATION_RUN = "AutomationRun"
DECIDE_NEXT, PERFORM_STEP, WAKE_RUN, CANCEL_RUN = "decide_next", "perform_step", "wake_run", "cancel_run"
TAKEN_UP, LOOK, LEFT = "taken_up", "look", "left"
NOT_ITS_RUN = "not_its_run"
"""The type of the error of an activity that is asked for another run than its workflow's."""
DELIVERY_BATCH = "DeliveryBatch"
SEND_DELIVERIES, QUEUE_DUE_DELIVERIES = "send_deliveries", "queue_due_deliveries"
REFRESH_DATASETS, PURGE_LOOKUPS = "refresh_datasets", "purge_lookups"
TEND_HISTORY, PURGE_MONITORS, RECONCILE_SCHEDULES = "tend_history", "purge_monitors", "reconcile_schedules"
PURGE_JOBS = "purge_jobs"
MONITOR_RUN, WATCH_TARGETS, FINISH_MONITOR_RUN = "MonitorRun", "watch_targets", "finish_monitor_run"
WATCH_CHUNK = "watch_chunk"
SCHEDULED_MONITOR, ACCEPT_DUE_RUN = "ScheduledMonitor", "accept_due_run"
SCHEDULED_TRIGGER, ACCEPT_SCHEDULED_RUN = "ScheduledTrigger", "accept_scheduled_run"
BULK_JOB, LOOK_UP_ROWS, FINISH_JOB = "BulkJob", "look_up_rows", "finish_job"
WAKING_QUEUE = "vedette-waking"
"""The task queue of activities that queue due work: it is never behind the work that it wakes."""


@dataclass(frozen=True)
class MonitorRunInput:
    """A monitor's run.

    Attributes:
        run_id: the run.
        chunks: the number of chunks of its targets.
        first: index of the first unprocessed chunk.
        in_order: whether all chunks before that are processed; under an earlier release any could be.
        waits: number of a chunk → the sources that it waits for.
        opens: source → when it may be asked again, as a Unix time.
    """

    run_id: UUID
    chunks: int
    first: int = 0
    in_order: bool = False
    waits: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    opens: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class BulkJobInput:
    """A bulk job.

    Attributes:
        job_id: the job.
        chunks: the number of chunks of its targets.
        first: index of the first unprocessed chunk.
    """

    job_id: UUID
    chunks: int
    first: int = 0


@dataclass(frozen=True)
class ChunkResult:
    """The result of processing a chunk of a bulk job.

    Attributes:
        seconds: how long it waits for its sources; 0 if it is done.
        over: whether the job has ended.
    """

    seconds: float = 0.0
    over: bool = False


@dataclass(frozen=True)
class MonitorChunkResult:
    """The result of processing a chunk of a monitor's run.

    Attributes:
        waits: source → the seconds until it may be asked again; empty if the chunk is done.
        over: whether the run has ended.
    """

    waits: dict[str, float] = field(default_factory=dict[str, float])
    over: bool = False


@dataclass(frozen=True)
class OwnRun:
    """A run that has its own workflow, and the claim under which that may write its changes."""

    run_id: UUID
    claim_id: UUID


@dataclass(frozen=True)
class CallName:
    """One attempt at a step or at an item of it: an `engine.calls.Call`, without the values that it reads.

    Attributes:
        kind: of the call; `items` for all items of the step, with their attempts.
        label: for people who read Temporal's pages.
    """

    step_id: str
    item: int | None
    attempt: int
    kind: str
    label: str = ""

    @property
    def key(self) -> tuple[str, int | None, int, str]:
        """The key that identifies it within its run."""
        return self.step_id, self.item, self.attempt, self.kind


@dataclass(frozen=True)
class Todo:
    """The next work of a run.

    Attributes:
        calls: the calls to execute.
        seconds: the time until a part of it continues by itself, if any does.
        waits: a description of the waits, for people.
        steps: the finished steps, each with its status.
        over: the final status, if the run has ended; `elsewhere` if the workflow no longer has it.
    """

    calls: list[CallName]
    seconds: float | None = None
    waits: str = ""
    steps: dict[str, str] | None = None
    over: str | None = None
