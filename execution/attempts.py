"""Attempts: one execution of a step, or of an item of it."""

from __future__ import annotations

import time
from collections.abc import Collection
from functools import partial
from typing import NamedTuple
from uuid import UUID

import logs
from database import Database
from engine.calls import AttemptResult, Call, JSONObject, failed_attempt
from engine.evaluation import evaluate_call
from execution.lookup_step import look_up
from execution.redaction import Redaction
from execution.run_execution import CallResult
from execution.step_answers import StepAnswers
from execution.versions import LoadedVersion
from execution.webhook_step import Secrets, send
from language.steps import LookupStep, WaitStep, WebhookStep
from models.accounts import secrets
from models.runs import call_ids, child_runs, resume_tokens, run_loading
from outbound.client import Outbound
from outbound.concurrency import ConcurrencyLimiter
from providers.lookup.lookup import Lookups
from sealing import Keyring, UnsealError
from services.process_pool import PoolBusy, ProcessPool, WorkLost

_log = logs.get(__name__)
# Calls of a step come in groups; a changed secret is used after this time.
_SECRETS_SECONDS = 2.0
_MOST_LOSSES = 2
_NO_SECRETS = Secrets({}, Redaction(()))
# The memory for data that calls read from rows, beside the data they fetch; and the growth of JSON when
# decoded.
_INPUT_BYTES = 32 * 1024 * 1024
_DECODED = 6


class _Known(NamedTuple):
    secrets: Secrets | None
    until: float


class Performer:
    """Executes the calls of the runs of a worker."""

    def __init__(
        self,
        database: Database,
        keyring: Keyring,
        outbound: Outbound,
        lookups: Lookups,
        pool: ProcessPool,
        answering: StepAnswers,
        address: str,
    ) -> None:
        """Create the performer.

        Args:
            database: the database with stored values.
            keyring: opens secrets.
            outbound: the guarded clients.
            lookups: the lookups of this process.
            pool: runs long evaluations.
            answering: executes the steps whose answers come from outside or from counting.
            address: the public address of this service, without a trailing slash.
        """
        self._database = database
        self._keyring = keyring
        self._outbound = outbound
        self._lookups = lookups
        self._pool = pool
        self._answering = answering
        self._address = address
        self._inputs = ConcurrencyLimiter(_INPUT_BYTES)
        self._secrets: dict[tuple[UUID, frozenset[str]], _Known] = {}
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
        if not call.stored:
            return await self._perform(account_id, automation_id, run_id, call, call.scope, version)
        async with self._database.connection() as connection:
            size = await run_loading.measure_values(connection, run_id, call.stored)
        async with self._inputs.taken(str(account_id), max(1, _DECODED * size)):
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
        if isinstance(call.step, LookupStep):
            reference = f"run/{run_id}/{call.step.id}" + (f"/{call.item}" if call.item is not None else "")
            return CallResult(await look_up(self._lookups, call.step, scope, account_id, reference))
        assert isinstance(call.step, WebhookStep)
        return await self._send(account_id, run_id, call, scope, version)

    async def _send(
        self, account_id: UUID, run_id: UUID, call: Call, scope: JSONObject, version: LoadedVersion
    ) -> CallResult:
        assert isinstance(call.step, WebhookStep)
        templates = version.templates[call.step.id]
        known = await self._known_secrets(account_id, templates.secrets)
        if known is None:
            message = "A secret was sealed with a key that is no longer known."
            return CallResult(failed_attempt("secret_not_opened", message))
        if call.step.id in version.plan.resume_urls:
            known = self._with_resume_urls(known, run_id, version)
        call_id = call_ids.call_id(run_id, call.step.id, call.item, await self._load_boundary())
        room = self._outbound.memory.reservation()
        outcome = await send(
            self._outbound, call.step, templates, scope, known, call_id, account_id, room,
            partial(self._depth_below, run_id), call.output_of,
        )  # fmt: skip
        return CallResult(outcome, room)

    async def _load_boundary(self) -> UUID:
        if self._call_id_boundary is None:
            async with self._database.connection() as connection:
                self._call_id_boundary = await call_ids.load_boundary(connection)
        return self._call_id_boundary

    async def _depth_below(self, run_id: UUID) -> int:
        async with self._database.connection() as connection:
            return await child_runs.depth_of_next(connection, run_id)

    def _with_resume_urls(self, known: Secrets, run_id: UUID, version: LoadedVersion) -> Secrets:
        """Add the URLs by which the run is resumed, which are as secret as the secrets themselves."""
        urls = {
            step.id: resume_tokens.resume_url(
                self._keyring, self._address, resume_tokens.StepPosition(run_id, position)
            )
            for position, step in enumerate(version.plan.steps)
            if isinstance(step, WaitStep)
        }
        tokens = [url.rpartition("/")[2] for url in urls.values()]
        return Secrets(known.values, Redaction([*known.values.values(), *tokens]), urls)

    async def _known_secrets(self, account_id: UUID, names: Collection[str]) -> Secrets | None:
        """Return the values of secrets; None if they cannot be opened."""
        if not names:
            return _NO_SECRETS
        key, now = (account_id, frozenset(names)), time.monotonic()
        known = self._secrets.get(key)
        if known is None or known.until < now:
            self._secrets = {key: known for key, known in self._secrets.items() if known.until >= now}
            known = self._secrets[key] = _Known(await self._opened(account_id, names), now + _SECRETS_SECONDS)
        return known.secrets

    async def _opened(self, account_id: UUID, names: Collection[str]) -> Secrets | None:
        try:
            async with self._database.connection() as connection:
                values = await secrets.load_values(connection, self._keyring, account_id, names)
        except UnsealError:
            _log.error("secret_not_opened", account_id=str(account_id))
            return None
        return Secrets(values, Redaction(values.values()))

    async def _evaluate(self, account_id: UUID, call: Call, scope: JSONObject) -> AttemptResult:
        """Evaluate in a separate process, so that a long evaluation does not block other runs."""
        losses = 0
        while losses < _MOST_LOSSES:
            try:
                return await self._pool.run(account_id, None, evaluate_call, call, scope)
            except PoolBusy:
                _log.warning("evaluation_waits", account_id=str(account_id))
            except WorkLost:
                losses += 1
        message = "What the step evaluates was lost with the process that did so, twice."
        return failed_attempt("evaluation_lost", message)
