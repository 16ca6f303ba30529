"""Steps that reach outside: lookups and webhook calls, each over all rows that are ready for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson
import structlog
from temporalio import activity
from temporalio.service import RPCError

import logs
from activities.heartbeat import heartbeats
from database import Database
from models import batches
from models.errors import ModelError
from models.lookups import AllProvidersFailed
from outbound import Answer, Outbound, OutboundError
from providers.charging import Payer
from providers.lookup import Lookups
from workflows import templates
from workflows.definition import IpLookupStep, WebhookStep, field_expression
from workflows.expressions import ExpressionError
from workflows.messages import (
    LOOKUP_MANY,
    SEND_MANY,
    TAKE_EARLY_RESULTS,
    EarlyResults,
    StepCall,
    StepCalls,
    StepError,
    StepRecord,
    StepResult,
    StepResults,
)

_log = logs.get(__name__)
_RETRIED_STATUSES = frozenset({408, 425, 429, *range(500, 600)})
# Faults of the call itself, which no repetition mends.
_FINAL_FAULTS = frozenset({"forbidden_address", "invalid_request", "too_large", "too_many_redirects"})
_MAX_RETRY_AFTER = 3600.0
# How long to wait for all calls before those that are done are reported: after 1, 2, 4 and 8 seconds.
_PATIENCE = (1, 1, 2, 4)


class Outcome(NamedTuple):
    """What one attempt came to. `retry_after`: the seconds the other side asks for; None when final."""

    input: Any
    output: Any = None
    error: StepError | None = None
    retryable: bool = False
    retry_after: float = 0
    credits_used: int = 0


Do = Callable[[StepCalls, StepCall], Coroutine[Any, Any, Outcome]]


class StepActivities:
    """The activities of the steps of a workflow."""

    def __init__(self, database: Database, outbound: Outbound, lookups: Lookups) -> None:
        self._database = database
        self._outbound = outbound
        self._lookups = lookups

    @activity.defn(name=SEND_MANY)
    async def send_many(self, calls: StepCalls) -> StepResults:
        """Send a webhook step's request for each row."""
        with _logged(calls):
            return await self._run(calls, self._send)

    @activity.defn(name=LOOKUP_MANY)
    async def lookup_many(self, calls: StepCalls) -> StepResults:
        """Do a lookup step's lookup for each row."""
        with _logged(calls):
            return await self._run(calls, self._look_up)

    async def _run(self, calls: StepCalls, do: Do) -> StepResults:
        """Do the rows that the batch still holds and that no earlier attempt has done; store; report."""
        earlier: list[StepRecord] = []
        async with self._database.connection() as connection:
            held = await batches.held(connection, calls.batch_id, [call.run_id for call in calls.calls])
            if activity.info().attempt > 1:
                earlier = await batches.recorded(connection, list(held), calls.step.id)
        results = [_result_of(record, calls) for record in earlier]
        results += [StepResult(run_id=run_id, status="cancelled") for run_id in held if held[run_id]]
        left = {run_id for run_id in held if not held[run_id]} - {record.run_id for record in earlier}
        todo = [call for call in calls.calls if call.run_id in left]
        records = list(calls.records)
        pending = {asyncio.create_task(do(calls, call)): call for call in todo}
        try:
            async with heartbeats():
                for patience in (*_PATIENCE, None):
                    if pending:
                        await asyncio.wait(pending, timeout=patience)
                    done = [task for task in pending if task.done()]
                    fresh = [_reported(calls, pending.pop(task), task, records) for task in done]
                    results += fresh
                    if pending and fresh:
                        await self._store(calls, records)
                        records = []
                        await _signal(calls, fresh)
        finally:
            for task in pending:
                task.cancel()
        await self._store(calls, records)
        return StepResults(results=results)

    async def _store(self, calls: StepCalls, records: list[StepRecord]) -> None:
        async with self._database.transaction() as connection:
            await batches.record(connection, calls.batch_id, records)

    async def _send(self, calls: StepCalls, call: StepCall) -> Outcome:
        step = calls.step
        assert isinstance(step, WebhookStep)
        sent: dict[str, Any] | None = None
        try:
            url, headers, body = _rendered(step, call)
            sent = {"method": step.config.method, "url": url, "body": body}
            answer = await self._outbound.send(
                step.config.method,
                url,
                headers=_headers(headers, call, step.id, body),
                body=_encoded(body),
                timeout=step.config.timeout,
                follow_redirects=5 if step.config.follow_redirects else 0,
            )
        except ExpressionError as error:
            return Outcome(sent, error=StepError(code=error.code, message=error.message))
        except OutboundError as error:
            retryable = error.code not in _FINAL_FAULTS
            return Outcome(sent, error=StepError(code=error.code, message=str(error)), retryable=retryable)
        output = {"status": answer.status, "headers": answer.headers, "body": _decoded(answer)}
        if 200 <= answer.status < 300:
            return Outcome(sent, output)
        return Outcome(
            sent,
            error=StepError(code="http_status", message=f"The endpoint answered {answer.status}."),
            retryable=answer.status in _RETRIED_STATUSES,
            retry_after=min(answer.retry_after() or 0, _MAX_RETRY_AFTER),
        )

    async def _look_up(self, calls: StepCalls, call: StepCall) -> Outcome:
        step = calls.step
        assert isinstance(step, IpLookupStep)
        query: Any = None
        try:
            query = _query(step, call)
            if not isinstance(query, str):
                message = "The reference gives no text to look up."
                return Outcome(query, error=StepError(code="missing_value", message=message))
            payer = Payer(calls.account_id, f"run/{call.run_id}/{step.id}")
            result = await self._lookups.lookup("ip", query, payer=payer)
        except ExpressionError as error:
            return Outcome(query, error=StepError(code=error.code, message=error.message))
        except ModelError as error:
            problem = StepError(code=error.code, message=error.message)
            return Outcome(query, error=problem, retryable=isinstance(error, AllProvidersFailed))
        return Outcome(query, result.answer(), credits_used=result.credits)


def _logged(calls: StepCalls) -> AbstractContextManager[object]:
    """Put the account, the batch and the step on every log line of the block."""
    return structlog.contextvars.bound_contextvars(
        account_id=str(calls.account_id), batch_id=str(calls.batch_id), step=calls.step.id
    )


def _reported(
    calls: StepCalls, call: StepCall, task: asyncio.Task[Outcome], records: list[StepRecord]
) -> StepResult:
    """What to tell the workflow of a call that is done; what is final goes to `records` too."""
    error = task.exception()
    outcome = task.result() if error is None else _bug(call, error)
    result = _result(calls, call, outcome)
    if result.retry_after is None:
        records.append(_record(calls, call, outcome))
    return result


async def _signal(calls: StepCalls, results: list[StepResult]) -> None:
    """Let the rows that are done go on while others are not. A lost signal only delays them."""
    attempts = {call.run_id: call.attempt for call in calls.calls}
    message = EarlyResults(
        step_id=calls.step.id,
        attempts={result.run_id: attempts[result.run_id] for result in results},
        results=results,
    )
    handle = activity.client().get_workflow_handle(activity.info().workflow_id or "")
    try:
        await handle.signal(TAKE_EARLY_RESULTS, message)
    except RPCError as error:
        _log.warning("early_results_not_signalled", error=str(error))


def _bug(call: StepCall, error: BaseException) -> Outcome:
    """A fault of ours fails its own row only."""
    if not isinstance(error, Exception):
        raise error
    _log.error("step_failed", run_id=str(call.run_id), exc_info=error)
    return Outcome(None, error=StepError(code="internal_error", message="The step failed unexpectedly."))


def _result(calls: StepCalls, call: StepCall, outcome: Outcome) -> StepResult:
    if outcome.error is None:
        output = outcome.output if calls.keep_output else None
        return StepResult(run_id=call.run_id, status="completed", output=output)
    error = outcome.error.model_copy(update={"attempt": call.attempt})
    retry = calls.step.retry
    again = outcome.retryable and call.attempt < retry.max_attempts
    delay = max(retry.delay(call.attempt), outcome.retry_after) if again else None
    return StepResult(run_id=call.run_id, status="failed", error=error, retry_after=delay)


def _record(calls: StepCalls, call: StepCall, outcome: Outcome) -> StepRecord:
    return StepRecord(
        run_id=call.run_id,
        step_id=calls.step.id,
        position=calls.position,
        status="completed" if outcome.error is None else "failed",
        input=outcome.input,
        output=outcome.output,
        error=outcome.error and outcome.error.model_copy(update={"attempt": call.attempt}),
        attempts=call.attempt,
        credits_used=outcome.credits_used,
        started_at=call.started_at,
        completed_at=max(datetime.now(UTC), call.started_at),
    )


def _result_of(record: StepRecord, calls: StepCalls) -> StepResult:
    """What an earlier attempt of this activity stored but could not report."""
    return StepResult(
        run_id=record.run_id,
        status="completed" if record.status == "completed" else "failed",
        output=record.output if calls.keep_output else None,
        error=record.error,
    )


def _query(step: IpLookupStep, call: StepCall) -> Any:
    if step.config.field is not None:
        return field_expression(step.config.field).evaluate(call.scope)
    return templates.compile_template(step.config.value).render(call.scope)


def _rendered(step: WebhookStep, call: StepCall) -> tuple[str, dict[str, Any], Any]:
    """The URL, headers and body with their templates filled in."""
    url = templates.compile_template(step.config.url).render(call.scope)
    if not isinstance(url, str) or not url:
        raise ExpressionError("missing_value", "The URL's template gives no text.")
    headers = templates.compile_template(dict(step.config.headers)).render(call.scope)
    assert isinstance(headers, dict)
    return url, headers, templates.compile_template(step.config.body).render(call.scope)


def _headers(rendered: dict[str, Any], call: StepCall, step_id: str, body: Any) -> dict[str, str]:
    """The user's headers, and an id by which the receiver knows a repeated call."""
    call_id = f"{call.run_id}-{step_id}"
    headers = {"Idempotency-Key": call_id, "webhook-id": call_id}
    if body is not None and not any(name.lower() == "content-type" for name in rendered):
        headers["Content-Type"] = "text/plain; charset=utf-8" if isinstance(body, str) else "application/json"
    return headers | {name: _text(value) for name, value in rendered.items()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode() if value is not None else ""


def _encoded(body: Any) -> bytes | None:
    if body is None:
        return None
    return body.encode() if isinstance(body, str) else orjson.dumps(body)


def _decoded(answer: Answer) -> Any:
    """The body as JSON if it says so and is, else as text; None when empty."""
    if not answer.body:
        return None
    if "json" in answer.headers.get("content-type", ""):
        with contextlib.suppress(orjson.JSONDecodeError):
            return orjson.loads(answer.body)
    return answer.body.decode("utf-8", errors="replace")
