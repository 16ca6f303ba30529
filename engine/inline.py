"""Inline evaluation: a little at a time, because it blocks all other runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from engine.calls import JSONObject
from engine.state import RunState
from language.expressions import Budget, ExpressionError

T = TypeVar("T")
INLINE_NODES = 2_000
"""The nodes of expressions that one advance of a run may evaluate inline: some two milliseconds.

A longer evaluation becomes a call, which has the whole budget of the language, so that the outcome is the
same.
"""

# The fixed cost of a value, even if there is little to evaluate.
_NODES_PER_VALUE = 30


class Inline:
    """Evaluates over the state of a run, while some of its nodes are left.

    Attributes:
        nodes: the number of nodes evaluated so far.
    """

    def __init__(self, state: RunState) -> None:
        self.nodes = 0
        self._state = state
        self._left = INLINE_NODES

    def refill(self) -> None:
        """Begin another advance."""
        self._left = INLINE_NODES

    def evaluate(
        self, step_id: str, roots: tuple[str, ...], evaluation: Callable[[JSONObject, Budget], T]
    ) -> T | None:
        """Return a value that can be evaluated here; None if it exceeds the rest, or needs stored values.

        Raises:
            ExpressionError: from the evaluation.
        """
        scope, stored = self._state.read_roots(step_id, roots)
        if stored or self._left <= 0:
            return None
        budget = Budget(self._left)
        try:
            return evaluation(scope, budget)
        except ExpressionError as problem:
            if problem.code == "too_many_nodes":
                return None
            raise
        finally:
            spent = self._left - budget.nodes_left + _NODES_PER_VALUE
            self._left -= spent
            self.nodes += spent
