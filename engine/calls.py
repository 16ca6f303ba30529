"""What a run asks for, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from language.definition import Step
from language.expressions import ExpressionError
from language.records import ItemTally, StepError

JSONObject = dict[str, Any]

CallKind = Literal[
    "send", "look_up", "evaluate", "prepare", "decide", "collect", "run_child", "remember", "emit"
]
"""`send` and `look_up` reach outside. `evaluate` is a pure step, `prepare` what a step needs to begin (the
items of its `for_each`, or the end of its delay), `decide` its `if`: all three over what is stored, or is too
costly to do inline. `collect` asks what was posted to a step that waits, `run_child` has a run of another
workflow and asks how it ended, `remember` counts a key, `emit` sends an event to webhooks: these are
repeated from the record."""


@dataclass(frozen=True, eq=False)
class Call:
    """One attempt at a step, or at an item of it. Make it once; its outcome goes to `Driver.take`.

    Attributes:
        attempt: from 1.
        scope: what the step's expressions may read, without what is stored.
        stored: the roots of the scope whose values are to be read from their rows first.
        started_at: when the step began, with its first attempt.
        deadline: when the step must be over, with all its attempts.
        expired: of a step that waits for somebody, its time is over.
        output_of: of a webhook step that sends the data of its run, the step whose output that has.
        items_total: how many items the step has, if it goes over an array.
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

    def complete_scope(self, values: JSONObject) -> JSONObject:
        """The scope with what is stored.

        Args:
            values: of `stored`, by name.
        """
        scope: JSONObject = {**self.scope, **{name: values.get(name) for name in self.stored}}
        known: JSONObject = scope.get("steps") or {}
        filled = {name: {**known[name], "output": scope[name]} for name in self.stored if name in known}
        return {**scope, "steps": {**known, **filled}} if filled else scope


class Outcome(NamedTuple):
    """What was sent or asked (`input`), and what came of it.

    `retry_after`: the seconds the other side asks for, if a repetition may help. `pending`: nothing came of
    it yet; whoever brings it wakes the run. `items`: how those of a step ended that it has done itself.
    """

    input: Any
    output: Any = None
    error: StepError | None = None
    retryable: bool = False
    retry_after: float = 0
    credits_used: int = 0
    pending: bool = False
    items: ItemTally | None = None


def failure(code: str, message: str, sent: Any = None, *, retryable: bool = False) -> Outcome:
    """Make the outcome of an attempt that failed."""
    return Outcome(sent, error=StepError(code=code, message=message), retryable=retryable)


def item_output(output: Any, error: StepError | None) -> Any:
    """Give what stands for an item in the output of its step.

    Args:
        output: of the item.
        error: of one that failed where the step goes on.
    """
    return output if error is None else {"error": error.model_dump(include={"code", "message"})}


def not_evaluated(error: ExpressionError, sent: Any = None) -> Outcome:
    """Make the outcome of an attempt whose expressions have no value: no repetition mends that."""
    return failure(error.code, error.message, sent)
