"""What an event is held against before it is accepted: the `dedupe` and the `input_schema` of its workflow.

What takes little is done here and now. What turns out to take more, by a count that knows no clock, is begun
anew in a process of the pool with the whole budget: the outcome is the same, and others do not wait for it.
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

# Of an account, the one that is being checked included. All are begun long before the pool loses patience.
_MOST_WAITING = 16
_SECONDS_PER_REQUEST = 0.01

UNDECIDED = frozenset({"too_many_nodes", "too_much_to_check", "too_deep"})
"""The codes of what a small budget, or a stack that is almost full, leaves open."""

P = ParamSpec("P")
T = TypeVar("T")
Charge = Callable[[int], Awaitable[None]]
"""Takes what checking has cost: of how many more requests it is worth."""


class ChecksWaiting(Unavailable):
    """So many events of the account wait to be checked that no more can."""

    def __init__(self) -> None:
        message = "Many events of this account take long to check, and wait for their turn; send it again."
        super().__init__("checks_waiting", message, retry_after=5)


class EventChecks:
    """Checks events. Those of an account that take more go one after the other, accounts take turns."""

    def __init__(self, pool: ProcessPool) -> None:
        self._pool = pool
        self._waiting: Counter[UUID] = Counter()

    async def dedupe_value(
        self, target: RunTarget, payload: Any, request: Mapping[str, Any], charge: Charge
    ) -> str | None:
        """The value of the workflow's `dedupe` for this event as JSON; None when it has none or gives null.

        Args:
            target: the workflow.
            payload: the event.
            request: what expressions may read of the request that it came with.
            charge: takes what it has cost beyond what every event may.

        Raises:
            Invalid: it cannot be evaluated on this event.
            ChecksWaiting, PoolBusy, WorkLost: it takes more than can be done at once, and could not be done.
        """
        found = _dedupe_value(payload, target.trigger, request, INLINE_NODES)
        if isinstance(found, FieldError) and found.code in UNDECIDED:
            raw = orjson.dumps(payload)
            arguments = (target.trigger, request, MAX_NODES)
            found = await self.pooled(target.account_id, charge, _dedupe_value, raw, *arguments)
        if isinstance(found, FieldError):
            raise Invalid([found])
        return found

    async def check_input(
        self, target: RunTarget, payload: Any, pointer: str, charge: Charge | None = None
    ) -> None:
        """See whether the workflow takes this input, which stands at a pointer in the request.

        Raises:
            Invalid: naming the places where it does not meet the `input_schema`.
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
        """See whether a value meets a schema of an account; else as `check_input`."""
        raw = orjson.dumps(payload)
        errors = _input_errors(payload, schema, pointer, len(raw), INLINE_CHECKS)
        if errors and errors[0].code in UNDECIDED:
            arguments = (schema, pointer, len(raw), MAX_CHECKS)
            errors = await self.pooled(account_id, charge, _input_errors, raw, *arguments)
        if errors:
            raise Invalid(errors)

    async def pooled(
        self,
        account: UUID,
        charge: Charge | None,
        work: Callable[Concatenate[Any, P], T],
        payload: bytes,
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """Do `work(payload, …)` in a process of the pool, in the account's turn.

        Args:
            account: whose turn it is.
            charge: takes what it has cost, if anybody pays.
            work: a function of a module.
            payload: its first argument, as JSON.
            arguments: the others.
            named: as well.

        Raises:
            ChecksWaiting, PoolBusy, WorkLost: it could not be done.
        """
        if self._waiting[account] >= _MOST_WAITING:
            raise ChecksWaiting
        self._waiting[account] += 1
        try:
            # Not the place of the account's dry runs and checks: who has too many events can still mend it.
            owner = ("events", account)
            found, seconds = await self._pool.run(owner, None, _timed, work, payload, *arguments, **named)
        finally:
            self._waiting[account] -= 1
            if not self._waiting[account]:
                del self._waiting[account]
        if charge is not None:
            await charge(math.ceil(seconds / _SECONDS_PER_REQUEST))
        return found


def _timed(
    ask: Ask, work: Callable[Concatenate[Any, P], T], payload: bytes, *arguments: P.args, **named: P.kwargs
) -> tuple[T, float]:
    """In a process of the pool: what came of the work, and the seconds of the processor that it took."""
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
