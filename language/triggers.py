"""The triggers of a run, and the parts of a request that expressions may read; the dedupe key."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal
from uuid import UUID

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema

from language import expressions
from language.expressions import Budget
from language.expressions.parser import MAX_TEXT
from language.findings import Finding, pointer_of

# JSON has no type for ids: otherwise strict models accept their text.
Ref = Annotated[UUID, Field(strict=False), WithJsonSchema({"type": "string", "minLength": 1})]
"""An object of the account. Names are replaced by ids before a definition is read."""

SecretName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]
_Text = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT)]

MAX_COLUMN_NAME = 200
"""The most characters of a column name, in a file as in `trigger`."""


class _Trigger(BaseModel):
    """Strict about names and types, so that a typing error never passes silently."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ManualTrigger(_Trigger):
    """Started by a call to `/run`."""

    type: Literal["manual"] = Field(description="Always `manual`.")


class Signature(_Trigger):
    """The proof of a sender's identity: the scheme of a service, with a named secret."""

    scheme: Literal["standard-webhooks", "github", "stripe", "slack", "hmac-sha256"] = Field(
        description="The service whose scheme it is."
    )
    secret: SecretName = Field(description="The name of a secret of the account, never its value.")
    header: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,100}$")] | None = Field(
        None, description="Where the signature stands, if not where the scheme has it."
    )


class Respond(_Trigger):
    """The answer for a sender that waits for a run that completes; all parts may be templates."""

    status: int | _Text = Field(200, description="From 200 to 599, or a template that gives it.")
    headers: dict[HeaderName, Annotated[str, StringConstraints(max_length=MAX_TEXT)]] = Field(
        default_factory=dict[str, str],
        max_length=50,
        description="Headers by name. As `content-type` there are `text/plain`, `application/json` and other "
        "`…+json`; without one it is JSON.",
    )
    body: Any = Field(None, description="Any JSON, its strings may be templates; without one it is empty.")


class WebhookTrigger(_Trigger):
    """Started by a POST to its ingest URL."""

    type: Literal["webhook"] = Field(description="Always `webhook`.")
    dedupe: _Text | None = Field(
        None, description="An expression over `trigger` and `request`: events of one value are one run."
    )
    signature: Signature | None = Field(None, description="How senders prove who they are.")
    respond: Respond | None = Field(
        None, description="What a sender that waits gets in place of the run's output."
    )


class Every(_Trigger):
    """A period: one of these, up to 365 days."""

    minutes: Annotated[int, Field(ge=1, le=365 * 24 * 60)] | None = Field(
        None, description="Minutes between runs."
    )
    hours: Annotated[int, Field(ge=1, le=365 * 24)] | None = Field(None, description="Hours between runs.")
    days: Annotated[int, Field(ge=1, le=365)] | None = Field(None, description="Days between runs.")


class Schedule(_Trigger):
    """The times of runs: one of `cron`, `every` and `frequency`."""

    cron: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        None, description="Minute, hour, day, month, weekday: `30 9 * * 1-5`."
    )
    every: Every | None = Field(None, description="A period.")
    frequency: Literal["hourly", "daily", "weekly", "biweekly", "monthly", "quarterly"] | None = Field(
        None, description="A period by its name."
    )
    timezone: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = Field(
        None, description="The IANA zone that `cron` and `frequency` are read in; without one, UTC."
    )


class ScheduleTrigger(_Trigger):
    """Started by the clock."""

    type: Literal["schedule"] = Field(description="Always `schedule`.")
    schedule: Annotated[
        Schedule,
        BeforeValidator(
            lambda given: {"cron": given} if isinstance(given, str) else given,
            json_schema_input_type=Schedule | str,
        ),
    ] = Field(description="When; a bare string is a `cron`.")
    input: Any = Field(None, description="Any JSON: the `trigger` of the workflow's expressions.")


_ColumnName = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_COLUMN_NAME)
]


class FileUploadTrigger(_Trigger):
    """Started by a CSV file, for each row or as a whole."""

    type: Literal["file_upload"] = Field(description="Always `file_upload`.")
    mode: Literal["per_row", "whole_file"] = Field(
        "per_row", description="A run for each row, or one for the file."
    )
    column_map: dict[_ColumnName, _ColumnName] | None = Field(
        None, max_length=1000, description="Other names for columns, by their name in the file, in any case."
    )


class MonitorEventTrigger(_Trigger):
    """Started by the results of a monitor: one of the account's, or any."""

    type: Literal["monitor_event"] = Field(description="Always `monitor_event`.")
    monitor_id: Ref | None = Field(None, description="One of the account's monitors; null for any.")
    event: Literal[
        "monitor.run.completed", "monitor.run.failed", "monitor.source_silent", "monitor.source_back"
    ] = Field("monitor.run.completed", description="Which of its events.")


Trigger = Annotated[
    ManualTrigger | WebhookTrigger | ScheduleTrigger | FileUploadTrigger | MonitorEventTrigger,
    Field(discriminator="type"),
]


def column_errors(trigger: Trigger) -> Iterator[Finding]:
    """Yield an error for each column that a `column_map` names twice, of the file or of `trigger`."""
    names = (isinstance(trigger, FileUploadTrigger) and trigger.column_map) or {}
    columns, fields = Counter(map(str.casefold, names)), Counter(names.values())
    for column, field in names.items():
        if columns[column.casefold()] > 1 or fields[field] > 1:
            message = "Another entry names the same column; each can have one name of its own."
            yield Finding(f"/trigger/column_map{pointer_of([column])}", "duplicate_column", message)


# Never stored: expressions must not pass on a caller's credentials, nor signatures made with them.
_CREDENTIALS = re.compile(
    "cookie|.*secret.*|.*hmac.*|(.*[-_])?signature[-_].*"
    "|(.*[-_])?(authorization|signature|token|key|apikey|password)"
)
_HARMLESS = frozenset({"idempotency-key"})


def _is_credential(name: str) -> bool:
    return name not in _HARMLESS and _CREDENTIALS.fullmatch(name) is not None


def readable_request(
    trigger: Trigger, headers: Iterable[tuple[str, str]], query: Mapping[str, str]
) -> dict[str, Any]:
    """Return `request` as expressions see it: lower-case header names without credentials, and the query."""
    signature = trigger.signature if isinstance(trigger, WebhookTrigger) else None
    signed = (signature.header or "").lower() if signature is not None else ""
    named = ((name.lower(), value) for name, value in headers)
    kept = {name: value for name, value in named if name != signed and not _is_credential(name)}
    return {"headers": kept, "query": dict(query)}


def dedupe_value(
    trigger: Trigger, payload: Any, request: Mapping[str, Any], budget: Budget | None = None
) -> str | None:
    """Return the value of the trigger's `dedupe` for this event as JSON; None without one or for null.

    Args:
        trigger: of the workflow.
        payload: the event.
        request: the readable part of its request, from `readable_request`.
        budget: of the evaluation; the full language's by default.

    Raises:
        ExpressionError: if it cannot be evaluated on this event.
    """
    if not isinstance(trigger, WebhookTrigger) or trigger.dedupe is None:
        return None
    scope = {"trigger": payload, "request": dict(request)}
    value = expressions.compile(trigger.dedupe).evaluate(scope, budget)
    return None if value is None else orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
