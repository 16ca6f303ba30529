"""The `data` of each type of events."""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID

from pydantic import AwareDatetime, ConfigDict, Field

from models.lookups.silence import WHY, Reason
from models.runs.run_views import TriggerType
from models.views import View


class EventData(View):
    """The `data` of an event: all of these fields, and no others, of exactly these types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Failure(EventData):
    """The reason of a failure."""

    code: str = Field(description="A stable snake_case word.")
    message: str = Field(description="The same in a sentence.")


class RunFailure(Failure):
    """The reason why a run of a workflow failed."""

    step: str | None = Field(description="The step that failed; null if it was none.")


class ToldChange(EventData):
    """The old and the new value of a field."""

    old: Any = Field(description="What it was.")
    new: Any = Field(description="What it is.")
    added: list[Any] = Field(description="Of a list: the items that have come.")
    removed: list[Any] = Field(description="Of a list: the items that are gone.")


class ChangedTarget(EventData):
    """The changes of a target."""

    target: str = Field(description="The target.")
    changes: dict[str, ToldChange] = Field(description="By dotted field what it was and is.")


class SilentSource(EventData):
    """A source that a monitor's run has not heard of some targets."""

    source: str = Field(description="The source.")
    since: AwareDatetime | None = Field(description="When it was last heard before; null if it never was.")
    why: Reason = Field(description=WHY)
    targets: int = Field(description="For how many targets it did not answer.")


class MonitorRunCompleted(EventData):
    """A monitor's run that found changes."""

    monitor_id: UUID = Field(description="The monitor.")
    monitor_name: str = Field(description="What it is called.")
    run_id: UUID = Field(description="Its run.")
    total_records: int = Field(description="How many targets the run had.")
    changes_detected: int = Field(description="How many of them have changed.")
    targets_partial: int = Field(default=0, description="How many of them lack a source of a tracked field.")
    sources_silent: list[SilentSource] = Field(
        default_factory=list[SilentSource],
        description="The sources that did not answer for some target, each with its `source`, `since`,"
        " `why` and `targets`.",
    )
    credits_used: int = Field(description="What it cost.")
    changes: list[ChangedTarget] = Field(
        default_factory=list[ChangedTarget],
        description="The first targets that have changed, each with its `changes`: by dotted field `old`,"
        " `new`, and of a list the items `added` and `removed`. At most 100 targets and 64 KiB.",
    )
    more: int = Field(default=0, description="How many further targets have changed.")


class MonitorRunFailed(EventData):
    """A monitor's run that failed."""

    monitor_id: UUID = Field(description="The monitor.")
    monitor_name: str = Field(description="What it is called.")
    run_id: UUID = Field(description="Its run.")
    total_records: int = Field(description="How many targets the run had.")
    processed_records: int = Field(description="How many of them were done by then.")
    credits_used: int = Field(description="What it cost.")
    error: Failure = Field(description="Why it failed.")


class MonitorSourceSilent(EventData):
    """A source of a monitor's tracked fields that is silent."""

    monitor_id: UUID = Field(description="The monitor.")
    monitor_name: str = Field(description="What it is called.")
    run_id: UUID = Field(description="The run that was without the source again.")
    source: str = Field(description="The source.")
    why: Reason = Field(
        description="Why: it `failed`, was `limited`, has `no_key` or `no_data`, or its `quota` was used up."
    )
    silent_since: AwareDatetime = Field(description="When the first run without an answer of it began.")
    heard_at: AwareDatetime | None = Field(description="When it last answered; null if it never did.")
    silent_runs: int = Field(description="How many runs in a row were without it.")


class MonitorSourceBack(EventData):
    """A source of a monitor's tracked fields that is heard again."""

    monitor_id: UUID = Field(description="The monitor.")
    monitor_name: str = Field(description="What it is called.")
    run_id: UUID = Field(description="The run in which the source answered.")
    source: str = Field(description="The source.")
    why: Reason = Field(description="Why it was silent.")
    silent_since: AwareDatetime = Field(description="When the first run without an answer of it began.")


class WorkflowRunCompleted(EventData):
    """A run of a workflow that completed."""

    run_id: UUID = Field(description="The run.")
    workflow_id: UUID = Field(description="Its workflow.")
    workflow_name: str = Field(description="The name of the workflow.")
    version: int = Field(description="The version that it ran.")
    trigger: TriggerType = Field(description="What started it.")
    credits_used: int = Field(description="What it cost.")
    items_total: int | None = Field(description="Items of its steps with `for_each`; null without any.")
    items_failed: int | None = Field(description="How many of them failed.")
    queued_at: AwareDatetime = Field(description="When it was accepted.")
    started_at: AwareDatetime | None = Field(description="When it began; null if it never did.")
    completed_at: AwareDatetime = Field(description="When it ended.")
    duration_ms: int | None = Field(description="Milliseconds from start to end; null if it never began.")


class WorkflowRunFailed(WorkflowRunCompleted):
    """A run of a workflow that failed."""

    error: RunFailure = Field(description="Why it failed.")


class WorkflowAlert(EventData):
    """The alert of an `emit` step of a workflow."""

    run_id: UUID = Field(description="The run.")
    workflow_id: UUID = Field(description="Its workflow.")
    workflow_name: str = Field(description="The name of the workflow.")
    step_id: str = Field(description="The step that sent it.")
    data: Any = Field(description="The `data` of the step.")


class LookupCompleted(EventData):
    """A lookup that was answered."""

    kind: str = Field(
        description="What was looked up: `ip`, `breach`, `email`, `validate`, `phone`, `domain`, `username`,"
        " `websearch`, `company` or `darkweb`."
    )
    query: str = Field(description="The target, in normal form.")
    credits_used: int = Field(description="What it cost.")
    cached: bool = Field(description="Whether all answers of outside sources came from the cache.")
    partial: bool = Field(
        description="Whether a source that is set up failed, was limited or lacks its data."
    )
    sources: list[str] = Field(description="The sources that gave an answer.")
    via: Literal["api", "workflow"] = Field(description="Who asked: a request, or a step of a workflow.")
    key_id: UUID | None = Field(description="The API key of the request, or null.")
    run_id: UUID | None = Field(description="The run of the step, or null.")


class BulkJobCompleted(EventData):
    """A bulk job that completed."""

    job_id: UUID = Field(description="The job.")
    name: str | None = Field(description="What it is called; null if it has no name.")
    type: str = Field(description="Its kind of lookup, as in `lookup.completed`.")
    total_rows: int = Field(description="How many rows it has.")
    processed_rows: int = Field(description="How many of them are done.")
    succeeded_rows: int = Field(description="How many of those were answered.")
    failed_rows: int = Field(description="How many of those were not.")
    credits_used: int = Field(description="What it cost.")
    duration_ms: int = Field(description="Milliseconds from start to end.")


class BulkJobFailed(BulkJobCompleted):
    """A bulk job that failed."""

    error: Failure = Field(description="Why it failed.")


class KeyCreated(EventData):
    """A new API key."""

    key_id: UUID = Field(description="The key.")
    name: str = Field(description="What it is for.")
    key_preview: str = Field(description="Its beginning and its last four characters.")
    scopes: list[str] = Field(description="What it may do.")
    expires_at: AwareDatetime | None = Field(description="When it expires; null for never.")


class KeyRevoked(EventData):
    """An API key that works no more."""

    key_id: UUID = Field(description="The key.")
    name: str = Field(description="What it was for.")
    key_preview: str = Field(description="Its beginning and its last four characters.")
    permanent: bool = Field(description="Whether its record was deleted too.")


class CreditsLow(EventData):
    """A balance that has become low."""

    balance: int = Field(description="The balance after the change.")
    low_balance_threshold: int = Field(description="The account's threshold.")


class CreditsExhausted(EventData):
    """A balance that is used up."""

    balance: int = Field(description="The balance after the change: 0.")
    held: int = Field(description="Credits held for work under way; unused ones come back.")


class CreditsToppedUp(EventData):
    """Credits that were added."""

    amount: int = Field(description="How many were added.")
    balance: int = Field(description="The balance after the change.")
    kind: Literal["topup", "grant"] = Field(description="Who added them: auto top-up, or an operator.")


class WebhookDisabled(EventData):
    """A webhook that was switched off."""

    webhook_id: UUID = Field(description="The webhook.")
    url: str = Field(description="Where it leads.")
    reason: Literal["gone", "failing"] = Field(
        description="Why: it answered 410, or it has failed for five days."
    )
    failing_since: AwareDatetime | None = Field(description="Start of the failures, or null.")


class WebhookTest(EventData):
    """A test of a webhook."""

    webhook_id: UUID = Field(description="The webhook.")
    message: str = Field(description="A greeting.")
