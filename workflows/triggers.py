"""What starts a run, and what a triggering request leaves in it: the parts expressions may read, its key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal
from uuid import UUID

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from workflows import expressions
from workflows.findings import Finding
from workflows.syntax import MAX_TEXT

SecretName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
_Text = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT)]


class _Trigger(BaseModel):
    """Strict about names and types, so that a typing error never passes silently."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ManualTrigger(_Trigger):
    """Started by a call to `/run`."""

    type: Literal["manual"] = "manual"


class Signature(_Trigger):
    """How senders prove who they are: by the scheme of a service, with a secret that is named here.

    Attributes:
        secret: the name of a secret of the account, never its value.
        header: where the signature stands, if not where the scheme has it.
    """

    scheme: Literal["standard-webhooks", "github", "stripe", "slack", "hmac-sha256"]
    secret: SecretName
    header: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,100}$")] | None = None


class WebhookTrigger(_Trigger):
    """Started by a POST to its ingest URL. `dedupe` is an expression over `trigger` and `request`."""

    type: Literal["webhook"]
    dedupe: _Text | None = None
    signature: Signature | None = None


class Every(_Trigger):
    """A period: one of these, up to 365 days."""

    minutes: Annotated[int, Field(ge=1, le=365 * 24 * 60)] | None = None
    hours: Annotated[int, Field(ge=1, le=365 * 24)] | None = None
    days: Annotated[int, Field(ge=1, le=365)] | None = None


class Schedule(_Trigger):
    """When: one of `cron` (five fields), `every` and `frequency`.

    `timezone` is the IANA zone that `cron` and `frequency` are read in; without one, UTC.
    """

    cron: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    every: Every | None = None
    frequency: Literal["hourly", "daily", "weekly", "biweekly", "monthly", "quarterly"] | None = None
    timezone: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = None


class ScheduleTrigger(_Trigger):
    """Started by the clock; `input` is the `trigger` of its expressions. A bare string is a `cron`."""

    type: Literal["schedule"]
    schedule: Annotated[
        Schedule,
        BeforeValidator(
            lambda given: {"cron": given} if isinstance(given, str) else given,
            json_schema_input_type=Schedule | str,
        ),
    ]
    input: Any = None


class FileUploadTrigger(_Trigger):
    """Started by a CSV file, for each row or as a whole; `column_map` gives columns other names."""

    type: Literal["file_upload"]
    mode: Literal["per_row", "whole_file"] = "per_row"
    column_map: dict[Annotated[str, StringConstraints(min_length=1, max_length=200)], _Text] | None = Field(
        None, max_length=1000
    )


class MonitorEventTrigger(_Trigger):
    """Started by what a monitor finds: one of the account's, or any."""

    type: Literal["monitor_event"]
    monitor_id: Annotated[UUID, Field(strict=False)] | None = None
    event: Literal["monitor.run.completed", "monitor.run.failed"] = "monitor.run.completed"


Trigger = Annotated[
    ManualTrigger | WebhookTrigger | ScheduleTrigger | FileUploadTrigger | MonitorEventTrigger,
    Field(discriminator="type"),
]

_FIRING = (ManualTrigger, WebhookTrigger)


def cannot_fire(trigger: Trigger) -> Finding | None:
    """Why a workflow with this trigger cannot be active yet, if it cannot."""
    if not isinstance(trigger, _FIRING):
        message = f"Triggers of type {trigger.type} do not fire yet: save it with status draft or paused."
        return Finding("/trigger/type", "trigger_not_available", message)
    if isinstance(trigger, WebhookTrigger) and trigger.signature is not None:
        message = "Signatures are not checked yet: save it with status draft or paused."
        return Finding("/trigger/signature", "signature_not_available", message)
    return None


# Never kept: an expression must not be able to pass a caller's credentials on, nor what it signed with them.
_CREDENTIALS = re.compile(
    "cookie|x-hub-signature-256|.*secret.*|(.*[-_])?(authorization|signature|token|key|apikey|password)"
)
_HARMLESS = frozenset({"idempotency-key"})


def _is_credential(name: str) -> bool:
    return name not in _HARMLESS and _CREDENTIALS.fullmatch(name) is not None


def readable_request(headers: Iterable[tuple[str, str]], query: Mapping[str, str]) -> dict[str, Any]:
    """`request` as expressions see it: lower-case header names without credentials, and the query."""
    kept = {name.lower(): value for name, value in headers if not _is_credential(name.lower())}
    return {"headers": kept, "query": dict(query)}


def dedupe_value(trigger: Trigger, payload: Any, request: Mapping[str, Any]) -> str | None:
    """The value of the trigger's `dedupe` for this event as JSON; None when it has none or gives null.

    Raises:
        ExpressionError: if it cannot be evaluated on this event.
    """
    if not isinstance(trigger, WebhookTrigger) or trigger.dedupe is None:
        return None
    value = expressions.compile(trigger.dedupe).evaluate({"trigger": payload, "request": dict(request)})
    return None if value is None else orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
