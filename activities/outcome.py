"""What one attempt at a step comes to, for one row or item."""

from __future__ import annotations

from typing import Any, NamedTuple

from workflows.expressions import ExpressionError
from workflows.messages import StepError


class Outcome(NamedTuple):
    """What was sent or asked (`input`), and what came of it.

    `retry_after`: the seconds the other side asks for, if a repetition may help.
    """

    input: Any
    output: Any = None
    error: StepError | None = None
    retryable: bool = False
    retry_after: float = 0
    credits_used: int = 0


def failure(code: str, message: str, sent: Any = None, *, retryable: bool = False) -> Outcome:
    """An attempt that failed."""
    return Outcome(sent, error=StepError(code=code, message=message), retryable=retryable)


def not_evaluated(error: ExpressionError, sent: Any = None) -> Outcome:
    """An attempt whose expressions could not be evaluated: no repetition mends that."""
    return failure(error.code, error.message, sent)
