"""The evaluation of a step's expressions.

It imports only the language, so that its process starts quickly.
"""

from __future__ import annotations

from typing import Any

from engine.calls import AttemptResult, Call, JSONObject, unevaluated_attempt
from language.expressions import Budget, ExpressionError
from language.step_evaluation import Seen, budget_of, decide, delay_of, evaluate, items_of
from language.steps import ConditionStep, DelayStep, IteratingStep, TransformStep

# The length of an invalid time that is returned for an error message.
_MOMENT_LENGTH = 100


def be_ready(_ask: object) -> None:
    """Do nothing, in a process that has imported everything that `evaluate_call` needs."""


def evaluate_call(_ask: object, call: Call, scope: JSONObject) -> AttemptResult:
    """Evaluate a pure step, or what a call needs: its `if`, its items, one item, or the end of its delay."""
    step: Any = call.step
    seen = Seen()
    try:
        if call.lacks_item and call.item is not None:
            return AttemptResult(None, items_of(step, scope)[call.item])
        if call.kind == "decide":
            return AttemptResult(None, decide(step, scope, Budget()))
        if isinstance(step, ConditionStep | TransformStep):
            output = evaluate(step, scope, budget_of(step), seen)
            return AttemptResult(seen.value, output, items=seen.items)
        if isinstance(step, DelayStep):
            until = delay_of(step.config, scope)
            return AttemptResult(None, until[:_MOMENT_LENGTH] if isinstance(until, str) else "")
        assert isinstance(step, IteratingStep)
        return AttemptResult(None, items_of(step, scope))
    except ExpressionError as error:
        return unevaluated_attempt(error, seen.value)
