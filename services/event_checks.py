"""The checks of an event before it is accepted: the `dedupe` and the `input_schema` of its workflow.

Cheap checks are done at once. A check that exceeds a small budget, counted in steps and not in time, is
repeated in a process of the pool with the full budget. The result is the same, and other requests do not wait
for it.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

import orjson

from engine.inline import INLINE_NODES
from language import triggers
from language.expressions import Budget, ExpressionError
from language.expressions.values import MAX_NODES
from language.triggers import Trigger
from models.automations.run_targets import RunTarget
from models.errors import FieldError, Invalid, Unavailable
from models.inputs.inputs import INLINE_CHECKS, MAX_CHECKS, InputSchema
from services.process_pool import Ask, ProcessPool

# The most checks of an account, including the running one. All start well before the pool's patience ends.
_MOST_WAITING = 16
_SECONDS_PER_REQUEST = 0.01

UNDECIDED = frozenset({"too_many_nodes", "too_much_to_check", "too_deep"})
"""Error codes of checks that a small budget, or an almost full stack, leaves undecided."""

P = ParamSpec("P")
T = TypeVar("T")
Charge = Callable[[int], Awaitable[None]]
"""A callback that receives the cost of checking, as a number of further requests."""


class ChecksWaiting(Unavailable):
    """Too many events of the account wait to be checked."""

    def __init__(self) -> None:
        message = "Many events of this account take long to check, and wait for their turn; send it again."
        super().__init__("checks_waiting", message, retry_after=5)


class EventChecks:
    """Checks events. Expensive checks of an account run one after the other, and accounts take turns."""

    def __init__(self, pool: ProcessPool) -> None:
        self._pool = pool
        self._waiting: Counter[UUID] = Counter()

    async def dedupe_value(
        self, target: RunTarget, payload: Any, request: Mapping[str, Any], charge: Charge
    ) -> str | None:
        """Return the value of the workflow's `dedupe` for this event as JSON; None without one or for null.

        Args:
            target: the workflow.
            payload: the event.
            request: the part of the request that expressions may read.
            charge: receives the cost beyond what is free for every event.

        Raises:
            Invalid: it cannot be evaluated on this event.
            ChecksWaiting, PoolBusy, WorkLost: it needs a process of the pool, and could not be done.
        """
        found = _dedupe_value(payload, target.trigger, request, INLINE_NODES)
        if isinstance(found, FieldError) and found.code in UNDECIDED:
            raw = orjson.dumps(payload)
            arguments = (target.trigger, request, MAX_NODES)
            found = await self.run_in_pool(target.account_id, charge, _dedupe_value, raw, *arguments)
        if isinstance(found, FieldError):
            raise Invalid([found])
        return found

    async def check_input(
        self, target: RunTarget, payload: Any, pointer: str, charge: Charge | None = None
    ) -> None:
        """Check that the workflow accepts this input, which is at a pointer in the request.

        Raises:
            Invalid: with the places where it violates the `input_schema`.
            ChecksWaiting, PoolBusy, WorkLost: as `dedupe_value`.
        """
        if target.spec.input_schema is not None:
            await self.check_schema(target.account_id, target.spec.input_schema, payload, pointer, charge)

    async def check_schema(
        self,
        account_id: UUID,
        schema: InputSchema,
        payload: Any,
        pointer: str,
        charge: Charge | None = None,
    ) -> None:
        """Check that a value matches a schema of an account; otherwise as `check_input`."""
        raw = orjson.dumps(payload)
        errors = _input_errors(payload, schema, pointer, len(raw), INLINE_CHECKS)
        if errors and errors[0].code in UNDECIDED:
            arguments = (schema, pointer, len(raw), MAX_CHECKS)
            errors = await self.run_in_pool(account_id, charge, _input_errors, raw, *arguments)
        if errors:
            raise Invalid(errors)

    async def run_in_pool(
        self,
        account: UUID,
        charge: Charge | None,
        work: Callable[Concatenate[Any, P], T],
        payload: bytes,
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """Run `work(payload, …)` in a process of the pool, in the account's turn.

        Args:
            account: the account whose turn it is.
            charge: receives the cost, if an account pays.
            work: a function of a module.
            payload: its first argument, as JSON.
            arguments: the other arguments.
            named: the keyword arguments.

        Raises:
            ChecksWaiting, PoolBusy, WorkLost: it could not be done.
        """
        if self._waiting[account] >= _MOST_WAITING:
            raise ChecksWaiting
        self._waiting[account] += 1
        try:
            # A separate place from that of the account's dry runs and checks, so that the owner of too many
            # events can still fix the workflow.
            owner = ("events", account)
            found, seconds = await self._pool.run(owner, None, _time_work, work, payload, *arguments, **named)
        finally:
            self._waiting[account] -= 1
            if not self._waiting[account]:
                del self._waiting[account]
        if charge is not None:
            await charge(math.ceil(seconds / _SECONDS_PER_REQUEST))
        return found


def _time_work(
    ask: Ask, work: Callable[Concatenate[Any, P], T], payload: bytes, *arguments: P.args, **named: P.kwargs
) -> tuple[T, float]:
    """Run the work in a process of the pool; return its result and the processor time in seconds."""
    began = time.process_time()
    found = work(orjson.loads(payload), *arguments, **named)
    return found, time.process_time() - began


def _dedupe_value(
    payload: Any, trigger: Trigger, request: Mapping[str, Any], nodes: int
) -> str | FieldError | None:
    try:
        return triggers.dedupe_value(trigger, payload, request, Budget(nodes))
    except ExpressionError as error:
        return FieldError("", error.code, f"dedupe: {error.message}")


def _input_errors(
    payload: Any, schema: InputSchema, pointer: str, size: int, checks: int
) -> list[FieldError]:
    try:
        schema.check(payload, pointer, size, checks)
    except Invalid as invalid:
        return invalid.errors
    return []
