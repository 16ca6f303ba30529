"""What a run evaluates by itself, beside all others: little at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from engine.calls import JSONObject
from engine.state import RunState
from language.expressions import Budget, ExpressionError

T = TypeVar("T")
INLINE_NODES = 2_000
"""What one advance of a run may evaluate by itself, in nodes of expressions: some two milliseconds. What is
more becomes a call, which has the whole budget of the language: so the outcome is the same."""

# What it costs to have a value at all, however little is to be evaluated.
_NODES_PER_VALUE = 30


class Inline:
    """Evaluates over the state of a run, as long as there is something left of its nodes.

    Attributes:
        nodes: what it has evaluated so far.
    """

    def __init__(self, state: RunState) -> None:
        self.nodes = 0
        self._state = state
        self._left = INLINE_NODES

    def refill(self) -> None:
        """Begin another advance."""
        self._left = INLINE_NODES

    def evaluate(self, roots: tuple[str, ...], evaluation: Callable[[JSONObject, Budget], T]) -> T | None:
        """Give a value that can be had here; None if it takes more than is left, or what is stored.

        Raises:
            ExpressionError: what the evaluation raises.
        """
        scope, stored = self._state.read(roots)
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
