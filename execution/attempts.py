"""Attempts: one execution of a step, or of an item of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar
from uuid import UUID

import logs
import tracing
from concurrency import ConcurrencyLimiter
from database import Database
from engine.calls import AttemptResult, Call, JSONObject, failed_attempt
from engine.evaluation import evaluate_call
from execution.lookup_step import look_up
from execution.redaction import Redaction, apply_redaction
from execution.run_execution import CallResult
from execution.run_secrets import RunSecrets
from execution.step_answers import StepAnswers
from execution.versions import LoadedVersion
from execution.webhook_step import WebhookCall, send
from language.expressions import JSON
from language.steps import LookupStep, WebhookStep
from models.runs import call_ids, child_runs, run_loading
from outbound.client import Outbound
from providers.lookup.lookup import Lookups
from services.process_pool import Ask, PoolBusy, ProcessPool, WorkLost

_log = logs.get(__name__)
_MOST_LOSSES = 2
# The memory for data that calls read from rows, beside the data they fetch; and the growth of JSON when
# decoded.
_INPUT_BYTES = 32 * 1024 * 1024
_DECODED = 6
# A few milliseconds: one secret in an answer of 220 KB, which is searched for each form of it.
_REDACTED_INLINE = 4_000_000

P = ParamSpec("P")
T = TypeVar("T")


class _LostTwice(Exception):
    def __init__(self) -> None:
        super().__init__("What the step evaluates was lost with the process that did so, twice.")


class Performer:
    """Executes the calls of the runs of a worker."""

    def __init__(
        self,
        database: Database,
        outbound: Outbound,
        lookups: Lookups,
        pool: ProcessPool,
        answering: StepAnswers,
        secrets: RunSecrets,
    ) -> None:
        """Create the performer.

        Args:
            database: the database with stored values.
            outbound: the guarded clients.
            lookups: the lookups of this process.
            pool: runs long evaluations.
            answering: executes the steps whose answers come from outside or from counting.
            secrets: the secrets that requests may contain.
        """
        self._database = database
        self._outbound = outbound
        self._lookups = lookups
        self._pool = pool
        self._answering = answering
        self._secrets = secrets
        self._inputs = ConcurrencyLimiter(_INPUT_BYTES)
        self._call_id_boundary: UUID | None = None

    async def perform(
        self, account_id: UUID, automation_id: UUID, run_id: UUID, call: Call, version: LoadedVersion
    ) -> CallResult:
        """Execute a call once.

        Args:
            account_id: the owner of the run.
            automation_id: the workflow.
            run_id: the run.
            call: the call.
            version: the version of the run.

        Raises:
            ExpressionError: an expression that it reads has no value.
            psycopg.Error: one of `AWAY`.
        """
        tracing.trace_step(call.step.id)
        if not call.stored:
            return await self._perform(account_id, automation_id, run_id, call, call.scope, version)
        async with self._database.connection() as connection:
            size = await run_loading.measure_values(connection, run_id, call.stored)
        async with self._inputs.hold(str(account_id), max(1, _DECODED * size)):
            async with self._database.connection() as connection:
                values = await run_loading.load_values(connection, run_id, call.stored)
            scope = call.complete_scope(values)
            return await self._perform(account_id, automation_id, run_id, call, scope, version)

    async def _perform(
        self,
        account_id: UUID,
        automation_id: UUID,
        run_id: UUID,
        call: Call,
        scope: JSONObject,
        version: LoadedVersion,
    ) -> CallResult:
        if call.lacks_item:
            found = await self._evaluate(account_id, call, scope)
            if found.error is not None:
                return CallResult(found)
            scope = {**scope, "item": found.output}
        if call.kind == "send":
            return await self._send(account_id, run_id, call, scope, version)
        if call.kind in ("evaluate", "prepare", "decide"):
            return CallResult(await self._evaluate(account_id, call, scope))
        if call.kind == "collect":
            return CallResult(await self._answering.collect(run_id, call, scope))
        if call.kind == "run_child":
            return CallResult(await self._answering.run_child(account_id, run_id, call, scope))
        if call.kind == "remember":
            return CallResult(await self._answering.remember(automation_id, run_id, call, scope))
        if call.kind == "emit":
            return CallResult(await self._answering.emit(account_id, run_id, call, scope, version.workflow))
        assert isinstance(call.step, LookupStep)
        reference = f"run/{run_id}/{call.step.id}" + (f"/{call.item}" if call.item is not None else "")
        return CallResult(await look_up(self._lookups, call.step, scope, account_id, reference))

    async def _send(
        self, account_id: UUID, run_id: UUID, call: Call, scope: JSONObject, version: LoadedVersion
    ) -> CallResult:
        assert isinstance(call.step, WebhookStep)
        secrets = await self._secrets.load(account_id, run_id, call.step.id, version)
        if secrets is None:
            message = "A secret was sealed with a key that is no longer known."
            return CallResult(failed_attempt("secret_not_opened", message))
        call_id = call_ids.call_id(run_id, call.step.id, call.item, await self._load_boundary())
        room = self._outbound.memory.reservation()
        request = WebhookCall(
            call_id, account_id, call.step, version.templates[call.step.id], scope, secrets, call.output_of
        )
        depth, redact = partial(self._depth_below, run_id), partial(self._redact_answer, account_id)
        try:
            outcome = await send(self._outbound, request, room, depth, redact)
        except _LostTwice as error:
            room.release()
            outcome = failed_attempt("evaluation_lost", str(error))
        return CallResult(outcome, room)

    async def _redact_answer(self, account_id: UUID, redaction: Redaction, value: JSON, size: int) -> JSON:
        """Mask secrets: many of them, or in a large answer, in a separate process, as an evaluation."""
        if redaction.cost_of(size) <= _REDACTED_INLINE:
            return redaction.apply(value)
        return await self._work_apart(account_id, apply_redaction, redaction, value)

    async def _load_boundary(self) -> UUID:
        if self._call_id_boundary is None:
            async with self._database.connection() as connection:
                self._call_id_boundary = await call_ids.load_boundary(connection)
        return self._call_id_boundary

    async def _depth_below(self, run_id: UUID) -> int:
        async with self._database.connection() as connection:
            return await child_runs.depth_of_next(connection, run_id)

    async def _evaluate(self, account_id: UUID, call: Call, scope: JSONObject) -> AttemptResult:
        """Evaluate in a separate process, so that a long evaluation does not block other runs."""
        try:
            return await self._work_apart(account_id, evaluate_call, call, scope)
        except _LostTwice as error:
            return failed_attempt("evaluation_lost", str(error))

    async def _work_apart(
        self, account_id: UUID, work: Callable[Concatenate[Ask, P], T], *arguments: P.args, **named: P.kwargs
    ) -> T:
        """Work in a separate process, once it is free.

        Raises:
            _LostTwice: the work was lost with its process, twice.
        """
        losses = 0
        while losses < _MOST_LOSSES:
            try:
                return await self._pool.run(account_id, None, work, *arguments, **named)
            except PoolBusy:
                _log.warning("evaluation_waits", account_id=str(account_id))
            except WorkLost:
                losses += 1
        raise _LostTwice
