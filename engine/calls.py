"""The calls of a run, and their outcomes."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NamedTuple

from language.expressions import ExpressionError
from language.records import ItemTally, StepError
from language.steps import Step

JSONObject = dict[str, Any]

CallKind = Literal[
    "send", "look_up", "evaluate", "prepare", "decide", "collect", "run_child", "remember", "emit"
]
"""The kinds of calls.

`send` and `look_up` reach outside. `evaluate` is a pure step, `prepare` the data that a step needs to begin
(the items of its `for_each`, or the end of its delay), `decide` its `if`: these three read stored values, or
are too costly to evaluate inline. `collect` fetches the answer posted to a step that waits, `run_child` runs
another workflow and fetches its result, `remember` counts a key, `emit` emits an event: these can be repeated
from the record.
"""
_CALL_KINDS: dict[str, CallKind] = {
    "webhook": "send", "wait": "collect", "workflow": "run_child", "remember": "remember", "emit": "emit"
}  # fmt: skip


class Call(NamedTuple):
    """One attempt at a step, or at an item of it. Execute it once; its outcome goes to `Driver.take`.

    Attributes:
        attempt: from 1.
        scope: the values that the step's expressions may read, without the stored ones.
        stored: the roots of the scope whose values must first be read from their rows.
        started_at: when the step began, with its first attempt.
        deadline: when the step must have ended, with all its attempts.
        expired: for a step that waits for an answer, whether its time is over.
        output_of: for a webhook step that sends the data of its run, the step with the run's output.
        items_total: the number of items of the step, if it iterates.
        lacks_item: whether the value of its item must first be evaluated from the scope.
    """

    kind: CallKind
    step: Step
    attempt: int
    scope: JSONObject
    stored: tuple[str, ...]
    started_at: datetime
    item: int | None = None
    deadline: datetime | None = None
    expired: bool = False
    output_of: str | None = None
    items_total: int = 0
    lacks_item: bool = False

    def complete_scope(self, values: JSONObject) -> JSONObject:
        """Return the scope with the stored values added.

        Args:
            values: the values of `stored`, by name.
        """
        scope: JSONObject = {**self.scope, **{name: values.get(name) for name in self.stored}}
        known: JSONObject = scope.get("steps") or {}
        filled = {name: {**known[name], "output": scope[name]} for name in self.stored if name in known}
        return {**scope, "steps": {**known, **filled}} if filled else scope


def call_kind(step: Step) -> CallKind:
    """Return the kind of the calls that a step makes for its result."""
    return _CALL_KINDS.get(step.type, "look_up")


class AttemptResult(NamedTuple):
    """The data that was sent or asked (`input`), and the result.

    `retry_after`: the seconds that the other side asks to wait before a retry. `pending`: there is no result
    yet; the run is woken when it comes. `items`: the results of items that the step has processed itself.
    """

    input: Any
    output: Any = None
    error: StepError | None = None
    retryable: bool = False
    retry_after: float = 0
    credits_used: int = 0
    pending: bool = False
    items: ItemTally | None = None


def failed_attempt(code: str, message: str, sent: Any = None, *, retryable: bool = False) -> AttemptResult:
    """Return the outcome of an attempt that failed."""
    return AttemptResult(sent, error=StepError(code=code, message=message), retryable=retryable)


def item_output(output: Any, error: StepError | None) -> Any:
    """Return the value for an item in the output of its step.

    Args:
        output: of the item.
        error: of a failed item of a step that continues nevertheless.
    """
    return output if error is None else {"error": error.model_dump(include={"code", "message"})}


def unevaluated_attempt(error: ExpressionError, sent: Any = None) -> AttemptResult:
    """Return the outcome of an attempt whose expressions have no value: a retry cannot fix that."""
    return failed_attempt(error.code, error.message, sent)
