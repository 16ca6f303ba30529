"""The activities of steps: each does one step over all rows, and items, that are ready for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
import structlog
from temporalio import activity
from temporalio.service import RPCError

import logs
from activities.heartbeat import heartbeats
from activities.looking_up import look_up
from activities.redaction import Redaction
from activities.reports import Key, Report
from activities.sending import Secrets, send
from database import Connection, Database
from engine.calls import Outcome, failure, not_evaluated
from language import step_evaluation
from language.definition import (
    ConditionStep,
    DelayStep,
    IteratingStep,
    LookupStep,
    TransformStep,
    WebhookStep,
)
from language.expressions import ExpressionError
from language.records import StepRecord
from models import batches, secrets
from outbound.client import Outbound
from providers.lookup import Lookups
from sealing import Keyring, UnsealError
from workflows.messages import (
    EVALUATE_MANY,
    LOOKUP_MANY,
    PREPARE_MANY,
    SEND_MANY,
    TAKE_EARLY_RESULTS,
    EarlyResults,
    StepCall,
    StepCalls,
    StepResult,
    StepResults,
)

_log = logs.get(__name__)
# How long to wait for all calls before those that are done are reported: after 1, 2, 4, 8, 12, … seconds.
_PATIENCE = (1, 1, 2, 4)
# How long an activity tries to store what it has done, and how often.
_STORING_SECONDS, _STORE_AGAIN_SECONDS = 60.0, 0.5


class Job(NamedTuple):
    """One attempt: a row of a step, or an item of it; `scope` is what its expressions may read."""

    call: StepCall
    scope: Mapping[str, Any]
    attempt: int
    item: int | None = None

    @property
    def key(self) -> Key:
        """Which row and item."""
        return self.call.run_id, self.item

    def reference(self, step_id: str, separator: str) -> str:
        """Names the work, the same for every repetition."""
        parts = [str(self.call.run_id), step_id, *([str(self.item)] if self.item is not None else [])]
        return separator.join(parts)


Do = Callable[[Job], Coroutine[Any, Any, Outcome]]


class StepActivities:
    """The activities of the steps of a workflow."""

    def __init__(self, database: Database, keyring: Keyring, outbound: Outbound, lookups: Lookups) -> None:
        self._database = database
        self._keyring = keyring
        self._outbound = outbound
        self._lookups = lookups

    @activity.defn(name=SEND_MANY)
    async def send_many(self, calls: StepCalls) -> StepResults:
        """Send a webhook step's request for each row."""
        step = calls.step
        assert isinstance(step, WebhookStep)
        templates = step_evaluation.RequestTemplates(step.config)
        try:
            known = await self._secrets(calls.account_id, templates.secrets)
        except UnsealError:
            _log.error("secret_not_opened", account_id=str(calls.account_id), step=step.id)
            known = None

        async def do(job: Job) -> Outcome:
            if known is None:
                return failure("secret_not_opened", "A secret was sealed with a key that is no longer known.")
            call_id = job.reference(step.id, "-")
            return await send(self._outbound, step, templates, job.scope, known, call_id, calls.account_id)

        return await self._run(calls, do)

    async def _secrets(self, account_id: UUID, names: Collection[str]) -> Secrets:
        values: dict[str, str] = {}
        if names:
            async with self._database.connection() as connection:
                values = await secrets.values(connection, self._keyring, account_id, names)
        return Secrets(values, Redaction(values.values()))

    @activity.defn(name=LOOKUP_MANY)
    async def lookup_many(self, calls: StepCalls) -> StepResults:
        """Do a lookup step's lookup for each row."""
        step = calls.step
        assert isinstance(step, LookupStep)

        async def do(job: Job) -> Outcome:
            reference = f"run/{job.reference(step.id, '/')}"
            return await look_up(self._lookups, step, job.scope, calls.account_id, reference)

        return await self._run(calls, do)

    @activity.defn(name=EVALUATE_MANY)
    async def evaluate_many(self, calls: StepCalls) -> StepResults:
        """Evaluate a condition or a transform over what is stored, or what is too much for the workflow."""
        step = calls.step
        assert isinstance(step, ConditionStep | TransformStep)

        async def do(job: Job) -> Outcome:
            budget = step_evaluation.budget_of(step)
            return Outcome(None, await asyncio.to_thread(step_evaluation.evaluate, step, job.scope, budget))

        return await self._run(calls, do)

    @activity.defn(name=PREPARE_MANY)
    async def prepare_many(self, calls: StepCalls) -> StepResults:
        """Find out what a step needs to begin, over what is stored: how many items, or until when to wait."""
        step = calls.step
        assert isinstance(step, IteratingStep | DelayStep)

        async def do(job: Job) -> Outcome:
            if isinstance(step, DelayStep):
                until = await asyncio.to_thread(step_evaluation.until_of, step.config, job.scope)
                return Outcome(None, until[:100] if isinstance(until, str) else "")
            return Outcome(None, len(await asyncio.to_thread(step_evaluation.items_of, step, job.scope)))

        return await self._run(calls, do, final=False)

    async def _run(self, calls: StepCalls, do: Do, *, final: bool = True) -> StepResults:
        """Do the rows that the batch still holds and that no earlier attempt has done; store; report."""
        # It beats from beginning to end: who waits for the database is not lost, and another attempt that
        # begins meanwhile calls again.
        with _logged(calls):
            async with heartbeats():
                jobs, report = await self._prepared(calls, final=final)
                pending = {asyncio.create_task(_attempt(do, job)): job for job in jobs}
                try:
                    patience = iter(_PATIENCE)
                    while pending:
                        await asyncio.wait(pending, timeout=next(patience, _PATIENCE[-1]))
                        done = [task for task in pending if task.done()]
                        fresh = [_noted(report, pending.pop(task), task) for task in done]
                        if final and pending and fresh:
                            await self._store(calls, report)
                            await _signal(calls, report.results_of(fresh))
                finally:
                    for task in pending:
                        task.cancel()
                await self._store(calls, report)
                return StepResults(results=report.results)

    async def _prepared(self, calls: StepCalls, *, final: bool) -> tuple[list[Job], Report]:
        """What is to be done, and the beginning of the report: what is done already, or cancelled."""
        report = Report(calls, final=final)
        run_ids = [call.run_id for call in calls.calls]
        stored = [(call.run_id, name) for call in calls.calls for name in call.stored]
        if stored:
            # What is to be read may be among the records that came along.
            await self._store(calls, report)
        async with self._database.connection() as connection:
            held = await batches.held(connection, calls.batch_id, run_ids)
            if calls.calls[0].items or activity.info().attempt > 1:
                report.repeat(await _recorded(connection, calls, list(held)))
            values = await batches.stored_values(connection, stored) if stored else {}
        jobs: list[Job] = []
        for call in calls.calls:
            if held.get(call.run_id):
                report.cancel(call.run_id)
            elif call.run_id in held and call.evaluates_items:
                jobs += await asyncio.to_thread(list, jobs_of(calls, call, values))
            elif call.run_id in held:
                jobs += jobs_of(calls, call, values)
        return [job for job in jobs if job.key not in report.repeated], report

    async def _store(self, calls: StepCalls, report: Report) -> None:
        """Store what is done. While the database is away it waits a minute: another attempt calls again."""
        records = report.take_records()
        gives_up = time.monotonic() + _STORING_SECONDS
        while records:
            try:
                async with self._database.connection() as connection:
                    if not await batches.record(connection, calls.batch_id, records):
                        run_ids = list(dict.fromkeys(record.run_id for record in records))
                        report.correct(await _recorded(connection, calls, run_ids))
                return
            except psycopg.OperationalError as error:
                if time.monotonic() > gives_up:
                    raise
                _log.warning("storing_waits", batch_id=str(calls.batch_id), error=str(error))
                await asyncio.sleep(_STORE_AGAIN_SECONDS)


async def _recorded(connection: Connection, calls: StepCalls, run_ids: list[UUID]) -> list[StepRecord]:
    """What is recorded of the step, or of its items, in these runs."""
    recorded = batches.recorded_items if calls.calls[0].items else batches.recorded
    return await recorded(connection, run_ids, calls.step.id)


def jobs_of(calls: StepCalls, call: StepCall, values: Mapping[tuple[UUID, str], Any]) -> Iterator[Job]:
    """The attempts that a call asks for."""
    scope = dict(call.scope)
    for name in call.stored:
        scope[name] = values.get((call.run_id, name))
        if name in scope.get("steps", {}):
            scope["steps"] = {**scope["steps"], name: {**scope["steps"][name], "output": scope[name]}}
    if not call.items:
        yield Job(call, scope, call.attempt)
        return
    items: list[Any] | None = None
    if call.evaluates_items:
        assert isinstance(calls.step, IteratingStep)
        items = step_evaluation.items_of(calls.step, scope)
    for one in call.items:
        value = one.value if items is None else items[one.item]
        yield Job(call, {**scope, "item": value}, one.attempt, one.item)


async def _attempt(do: Do, job: Job) -> Outcome:
    """One attempt, within the time that its step has left."""
    left = None
    if job.call.deadline is not None:
        left = (job.call.deadline - datetime.now(UTC)).total_seconds()
    limit = asyncio.timeout(left)
    try:
        async with limit:
            return await do(job)
    except ExpressionError as error:
        return not_evaluated(error)
    except TimeoutError:
        if not limit.expired():
            raise
        return failure("timeout", "The step was not done within its timeout.")


def _noted(report: Report, job: Job, task: asyncio.Task[Outcome]) -> Key:
    """Note an attempt that is over; which row and item it was."""
    error = task.exception()
    if error is None:
        outcome = task.result()
    elif isinstance(error, Exception) and not isinstance(error, psycopg.OperationalError):
        # A fault of ours fails its own row only; an absent database is waited for.
        _log.error("step_failed", run_id=str(job.call.run_id), exc_info=error)
        outcome = failure("internal_error", "The step failed unexpectedly.")
    else:
        raise error
    report.add(job.call, job.item, job.attempt, outcome)
    return job.key


async def _signal(calls: StepCalls, results: list[StepResult]) -> None:
    """Let the rows that are done go on while others are not. A lost signal only delays them."""
    message = EarlyResults(step_id=calls.step.id, results=results)
    handle = activity.client().get_workflow_handle(activity.info().workflow_id or "")
    try:
        await handle.signal(TAKE_EARLY_RESULTS, message)
    except RPCError as error:
        _log.warning("early_results_not_signalled", error=str(error))


def _logged(calls: StepCalls) -> AbstractContextManager[object]:
    """Put the account, the batch and the step on every log line of the block."""
    return structlog.contextvars.bound_contextvars(
        account_id=str(calls.account_id), batch_id=str(calls.batch_id), step=calls.step.id
    )
