"""The request of one webhook step: rendered, sent through the guard, its answer read."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

import orjson

import tracing
from engine.calls import AttemptResult, failed_attempt, unevaluated_attempt
from execution.redaction import MASK, Redaction
from language.expressions import JSON, ExpressionError
from language.json_text import is_too_deep
from language.steps import WebhookStep
from language.webhook_requests import Request, RequestTemplates
from outbound import chain
from outbound.client import Outbound
from outbound.errors import OutboundError
from outbound.memory import Reservation
from outbound.requests import OutgoingRequest
from outbound.response import Answer

_RETRIED_STATUSES = frozenset({408, 425, 429, *range(500, 600)})
# Faults of the call itself, which a repetition cannot fix.
_FINAL_FAULTS = frozenset(
    {"forbidden_address", "forbidden_header", "invalid_request", "too_large", "too_many_redirects"}
)
_MAX_RETRY_AFTER = 3600.0
_MAX_REDIRECTS = 5


Redact = Callable[[Redaction, JSON, int], Awaitable[JSON]]
"""Returns a value, whose JSON has so many bytes, without the secrets."""


class Secrets(NamedTuple):
    """The values of secrets by name, and their redaction in answers.

    `resume_urls`: by step, if the request may contain them; they are as secret.
    """

    values: dict[str, Any]
    redaction: Redaction
    resume_urls: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class WebhookCall:
    """A call of a webhook step.

    Attributes:
        id: the same for every repetition, so that the receiver can recognise it.
        account_id: the owner of the call: one account cannot take all places for calls.
        step: the step.
        templates: its templates.
        scope: the values that these may read.
        secrets: the secrets that they name; the result contains none of their values.
        output_of: as in `run_data_of`.
    """

    id: str
    account_id: UUID
    step: WebhookStep
    templates: RequestTemplates
    scope: Mapping[str, Any]
    secrets: Secrets
    output_of: str | None = None

    def render(self) -> Request:
        """Return the request."""
        return self._render(self.secrets.values, self.secrets.resume_urls)

    def render_masked(self) -> Request:
        """Return the request with a mask for each secret."""
        urls = self.secrets.resume_urls
        return self._render(dict.fromkeys(self.secrets.values, MASK), urls and dict.fromkeys(urls, MASK))

    def _render(self, secrets: Mapping[str, Any], urls: Mapping[str, str] | None) -> Request:
        scope: dict[str, Any] = {**self.scope, "secrets": secrets}
        if urls is not None:
            scope["run"] = {**scope["run"], "resume_urls": urls}
        return self.templates.render(scope, output_of=self.output_of)


async def send(
    outbound: Outbound,
    call: WebhookCall,
    room: Reservation,
    depth: Callable[[], Awaitable[int]],
    redact: Redact,
) -> AttemptResult:
    """Send the request of a call once.

    Args:
        outbound: the guarded clients.
        call: the call.
        room: memory for the output; to be released when that is stored or dropped. A failure releases it.
        depth: returns the number of runs that led to the request, this one included; called only if it is
            sent.
        redact: masks secrets in the answer.
    """
    config, secrets = call.step.config, call.secrets
    sent: dict[str, Any] | None = None
    try:
        request = call.render()
        shown = call.render_masked() if secrets.values or secrets.resume_urls else request
        sent = {"method": shown.method, "url": shown.url, "body": shown.body}
        headers = _headers(request.headers, call.id, request.body)
        if config.follow_redirects or chain.may_start_runs(request.url):
            headers = chain.with_depth(headers, await depth())
        outgoing = OutgoingRequest(
            request.method,
            request.url,
            headers,
            body=_encode_body(request.body),
            timeout=config.timeout,
            follow_redirects=_MAX_REDIRECTS if config.follow_redirects else 0,
            owner=str(call.account_id),
        )
        answer = await outbound.send(outgoing, room)
    except ExpressionError as error:
        return unevaluated_attempt(error, sent)
    except OutboundError as error:
        message = secrets.redaction.text(str(error))
        return failed_attempt(error.code, message, sent, retryable=error.code not in _FINAL_FAULTS)
    if config.is_success(answer.status):
        output: Any = {"status": answer.status, "headers": answer.headers, "body": _decode_body(answer)}
        return AttemptResult(sent, await redact(secrets.redaction, output, len(answer.body)))
    room.release()
    refused = failed_attempt("http_status", f"The endpoint answered {answer.status}.", sent)
    return refused._replace(
        retryable=answer.status in _RETRIED_STATUSES,
        retry_after=min(answer.retry_after() or 0, _MAX_RETRY_AFTER),
    )


def _headers(rendered: dict[str, Any], call_id: str, body: Any) -> dict[str, str]:
    """Return the user's headers, the trace, and an id by which the receiver recognises a repeated call."""
    headers = {"Idempotency-Key": call_id, "webhook-id": call_id}
    if (traceparent := tracing.get_traceparent()) is not None:
        headers["traceparent"] = traceparent
    if body is not None:
        headers["Content-Type"] = "text/plain; charset=utf-8" if isinstance(body, str) else "application/json"
    # If a name appears in two spellings, the later one is sent.
    return headers | {name: _text(value) for name, value in rendered.items()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode() if value is not None else ""


def _encode_body(body: Any) -> bytes | None:
    if body is None:
        return None
    return body.encode() if isinstance(body, str) else orjson.dumps(body)


def _decode_body(answer: Answer) -> Any:
    """Return the body as JSON if it is declared and valid, and not too deep, else as text; None if empty."""
    if not answer.body:
        return None
    if "json" in answer.headers.get("content-type", "") and not is_too_deep(answer.body):
        with contextlib.suppress(orjson.JSONDecodeError):
            return orjson.loads(answer.body)
    return answer.body.decode("utf-8", errors="replace")
