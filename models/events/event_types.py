"""All types of events: for each its cause, the shape of its `data`, and an example.

An event is sent as `{event, data, created_at}`. docs/events.md has the same in tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

from language.findings import suggestion
from models.events.event_data import (
    BulkJobCompleted,
    BulkJobFailed,
    ChangedTarget,
    CreditsExhausted,
    CreditsLow,
    CreditsToppedUp,
    EventData,
    Failure,
    KeyCreated,
    KeyRevoked,
    LookupCompleted,
    MonitorRunCompleted,
    MonitorRunFailed,
    MonitorSourceBack,
    MonitorSourceSilent,
    RunFailure,
    SilentSource,
    ToldChange,
    WebhookDisabled,
    WebhookTest,
    WorkflowAlert,
    WorkflowRunCompleted,
    WorkflowRunFailed,
)
from models.inputs.input_schemas import DRAFT


@dataclass(frozen=True)
class EventType:
    """A type of events.

    Attributes:
        name: `noun.what_happened`, or with more nouns.
        description: its cause, in Markdown.
        data: the shape of its `data`.
        example: a whole event as it is sent, `{event, data, created_at}`.
    """

    name: str
    description: str
    data: type[EventData]
    example: dict[str, Any]

    def data_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of its `data`: draft 2020-12, without references."""
        return {"$schema": DRAFT, **self._data_schema()}

    def envelope_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the whole event as it is sent: draft 2020-12, without references."""
        members = {
            "event": {"const": self.name, "type": "string", "description": "The type of the event."},
            "data": self._data_schema(),
            "created_at": {"type": "string", "format": "date-time", "description": "When it happened."},
        }
        return {
            "$schema": DRAFT,
            "title": self.name,
            "description": self.description,
            "type": "object",
            "properties": members,
            "required": list(members),
            "additionalProperties": False,
        }

    def _data_schema(self) -> dict[str, Any]:
        schema = self.data.model_json_schema(mode="serialization")
        return _plain(schema, schema.get("$defs", {}))


def _plain(node: Any, definitions: dict[str, Any]) -> Any:
    """Return a schema of Pydantic's without titles, and with references replaced by their definitions."""
    if isinstance(node, list):
        return [_plain(one, definitions) for one in cast(list[Any], node)]
    if not isinstance(node, dict):
        return node
    named = cast(dict[str, Any], node)
    if "$ref" in named:
        named = definitions[named["$ref"].removeprefix("#/$defs/")] | named
    return {
        name: _plain(value, definitions)
        for name, value in named.items()
        if name not in ("$ref", "$defs", "title")
    }


_START = datetime(2026, 11, 23, 9, 30, tzinfo=UTC)
_END = _START + timedelta(milliseconds=2412)
_MONITOR = UUID("019ab0a2-4d1e-7c3a-9f52-0b6f7a1c2d3e")
_RUN = UUID("019ab0a2-5f00-7d14-8a61-3e9b5c7d1f20")
_WORKFLOW = UUID("019aa1c4-22b8-7b0e-b7d3-6f1a2c3d4e5f")
_KEY = UUID("019a9f31-7e64-7a59-8c0d-5b2e4f6a8c1d")
_JOB = UUID("019ab0a2-8c3b-7f26-9d44-1a7c3e5f9b2d")
_WEBHOOK = UUID("019a8e02-6a17-7c48-a5f9-2d4b6e8f0a1c")
_KEY_PREVIEW = "vedette_live_…x7Qa"


def _type(name: str, description: str, data: EventData) -> EventType:
    example = {
        "event": name,
        "data": data.model_dump(mode="json"),
        "created_at": "2026-11-23T09:30:02.481530Z",
    }
    return EventType(name, description, type(data), example)


_TYPES = (
    _type(
        "monitor.run.completed",
        "A monitor's run has completed and found changes. A run without changes gives no event.",
        MonitorRunCompleted(
            monitor_id=_MONITOR, monitor_name="Key customers", run_id=_RUN, total_records=250,
            changes_detected=3, targets_partial=40, credits_used=250, more=2,
            sources_silent=[SilentSource(source="virustotaldomain", since=_START, why="quota", targets=40)],
            changes=[
                ChangedTarget(
                    target="example.com",
                    changes={
                        "whois.name_servers": ToldChange(
                            old=["ns1.example.com"], new=["ns1.example.com", "ns2.example.net"],
                            added=["ns2.example.net"], removed=[],
                        )
                    },
                )
            ],
        ),
    ),
    _type(
        "monitor.run.failed",
        "A monitor's run has failed.",
        MonitorRunFailed(
            monitor_id=_MONITOR, monitor_name="Key customers", run_id=_RUN, total_records=250,
            processed_records=0, credits_used=0,
            error=Failure(code="insufficient_credits", message="This needs 250 credits; the balance is 12."),
        ),
    ),
    _type(
        "monitor.source_silent",
        "A source of a monitor's tracked fields has answered for no target in two or more runs in a row, for"
        " a day or longer. The event comes once for each silence. A source that never had a key gives none.",
        MonitorSourceSilent(
            monitor_id=_MONITOR, monitor_name="Key customers", run_id=_RUN, source="greynoise", why="failed",
            silent_since=_START - timedelta(days=1), heard_at=_START - timedelta(days=2), silent_runs=2,
        ),
    ),
    _type(
        "monitor.source_back",
        "A source that `monitor.source_silent` reported has answered again.",
        MonitorSourceBack(
            monitor_id=_MONITOR, monitor_name="Key customers", run_id=_RUN, source="greynoise", why="failed",
            silent_since=_START - timedelta(days=1),
        ),
    ),
    _type(
        "workflow.run.completed",
        "A run of a workflow has completed.",
        WorkflowRunCompleted(
            run_id=_RUN, workflow_id=_WORKFLOW, workflow_name="Visitors from abroad", version=4,
            trigger="webhook", credits_used=2, items_total=40, items_failed=1, queued_at=_START,
            started_at=_START, completed_at=_END, duration_ms=2_412,
        ),
    ),
    _type(
        "workflow.run.failed",
        "A run of a workflow has failed. A run that was cancelled gives no event.",
        WorkflowRunFailed(
            run_id=_RUN, workflow_id=_WORKFLOW, workflow_name="Visitors from abroad", version=4,
            trigger="manual", credits_used=2, items_total=None, items_failed=None, queued_at=_START,
            started_at=_START, completed_at=_END, duration_ms=2_412,
            error=RunFailure(code="http_status", message="The endpoint answered 503.", step="tell"),
        ),
    ),
    _type(
        "workflow.alert",
        "A step `emit` of a workflow has run. There is one event for each run and step.",
        WorkflowAlert(
            run_id=_RUN, workflow_id=_WORKFLOW, workflow_name="Visitors from abroad", step_id="tell",
            data={"text": "A visitor from Tor: 185.220.101.1", "country": None},
        ),
    ),
    _type(
        "lookup.completed",
        "A lookup was answered, for a request or for a step of a workflow. The rows of bulk jobs and"
        " the targets of monitors give none.",
        LookupCompleted(
            kind="domain", query="example.com", credits_used=1, cached=False, partial=False,
            sources=["dns", "rdapdomain"], via="api", key_id=_KEY, run_id=None,
        ),
    ),
    _type(
        "bulk.job.completed",
        "A bulk job has completed.",
        BulkJobCompleted(
            job_id=_JOB, name="Leads of November", type="email", total_rows=10_000, processed_rows=10_000,
            succeeded_rows=9_994, failed_rows=6, credits_used=7_310, duration_ms=184_020,
        ),
    ),
    _type(
        "bulk.job.failed",
        "A bulk job has failed. One that was cancelled gives no event.",
        BulkJobFailed(
            job_id=_JOB, name=None, type="company", total_rows=40, processed_rows=0, succeeded_rows=0,
            failed_rows=0, credits_used=0, duration_ms=310,
            error=Failure(code="no_provider", message="No source is set up for this."),
        ),
    ),
    _type(
        "key.created",
        "An API key was created.",
        KeyCreated(
            key_id=_KEY, name="CI", key_preview=_KEY_PREVIEW, scopes=["lookups", "workflows"], expires_at=None
        ),
    ),
    _type(
        "key.revoked",
        "An API key was revoked.",
        KeyRevoked(key_id=_KEY, name="CI", key_preview=_KEY_PREVIEW, permanent=False),
    ),
    _type(
        "credits.low",
        "A change took the balance below the account's threshold.",
        CreditsLow(balance=99, low_balance_threshold=100),
    ),
    _type(
        "credits.exhausted",
        "A change took the balance to 0.",
        CreditsExhausted(balance=0, held=25),
    ),
    _type(
        "credits.topped_up",
        "Auto top-up or an operator added credits.",
        CreditsToppedUp(amount=1_000, balance=1_099, kind="topup"),
    ),
    _type(
        "webhook.disabled",
        "A webhook was switched off, because it answered 410 or has only failed for five days. The account's"
        " other webhooks get the event.",
        WebhookDisabled(
            webhook_id=_WEBHOOK, url="https://example.com/hooks", reason="failing", failing_since=_START
        ),
    ),
    _type(
        "webhook.test",
        "`POST /api/webhooks/test` was called. Only that webhook gets it, whatever its filters are.",
        WebhookTest(webhook_id=_WEBHOOK, message="This is a test."),
    ),
)  # fmt: skip

EVENT_TYPES: dict[str, EventType] = {one.name: one for one in _TYPES}
"""Name → type, in the order of docs/events.md."""

_NAMES = {one.data: one.name for one in _TYPES}


def name_of(data: EventData) -> str:
    """Return the name of the type of events with this class of data."""
    return _NAMES[type(data)]


_FILTERS = sorted({"*", *EVENT_TYPES} | {
    ".".join([*words[:length], "*"])
    for words in (name.split(".") for name in EVENT_TYPES)
    for length in range(1, len(words))
})  # fmt: skip


def matches(pattern: str, name: str) -> bool:
    """Return whether a filter matches a type of events.

    A filter is the name of a type, `*` for all of them, or a prefix such as `monitor.*` or `monitor.run.*`.
    """
    return pattern in (name, "*") or (pattern.endswith(".*") and name.startswith(pattern[:-1]))


def unknown_filter(pattern: str) -> str | None:
    """Return an error message with a likely correction if a filter matches no type; None if it is valid."""
    if any(matches(pattern, name) for name in EVENT_TYPES):
        return None
    return "There is no such type of events." + suggestion(pattern.lower(), _FILTERS)
