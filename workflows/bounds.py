"""How much a workflow evaluates by itself. What is more goes to activities, where it blocks nobody.

All is counted, never timed, so that a replay decides the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

from language.expressions import Budget, ExpressionError
from workflows.dataflow import RowState
from workflows.messages import LIVE_BYTES, most_inline

T = TypeVar("T")

INLINE_NODES = 20_000
"""What one value may cost, in nodes of expressions."""
# After so many the rest is left to the next workflow task: about a tenth of a second. Twelve tasks that share
# a processor stay under the two seconds after which the SDK takes a task for stuck.
_NODES_PER_TASK = 80_000
# What a history may hold before the rest goes to activities: a replay does all of it again, in one task.
_NODES_PER_HISTORY = 400_000
# What it costs to have a value at all, however little is to be evaluated.
_NODES_PER_VALUE = 30


class Found(NamedTuple, Generic[T]):
    """What was evaluated, and its size in bytes of JSON."""

    value: T
    size: int


class Bounds:
    """Counts what one batch evaluates and keeps.

    Attributes:
        room: how many bytes of outputs the batch can still keep.
    """

    def __init__(self) -> None:
        self.room = LIVE_BYTES
        self._nodes = self._nodes_of_history = 0

    def begin_task(self, rows: Iterable[RowState]) -> None:
        """Begin a workflow task with these rows."""
        self.room = LIVE_BYTES - sum(row.kept_bytes for row in rows if not row.ended)
        self._nodes = 0

    @property
    def nodes(self) -> int:
        """What has been evaluated so far, in nodes."""
        return self._nodes_of_history

    @property
    def reached(self) -> bool:
        """Whether this task has done its share."""
        return self._nodes > _NODES_PER_TASK

    def evaluate(
        self, row: RowState, roots: Iterable[str], evaluation: Callable[[Budget], T]
    ) -> Found[T] | None:
        """A value that can be had here; None if an activity must have it.

        Args:
            row: whose it is.
            roots: what it reads of the row.
            evaluation: gives the value within a budget, which is its own: what a row gets never depends on
                its batch mates.

        Raises:
            ExpressionError: there is no such value, wherever it is evaluated.
        """
        if self._nodes_of_history > _NODES_PER_HISTORY or row.full or row.read(roots).stored:
            return None
        budget = Budget(INLINE_NODES)
        room = budget.output_left
        try:
            value = evaluation(budget)
        except ExpressionError as problem:
            if problem.code == "too_many_nodes":
                return None
            raise
        finally:
            nodes = _NODES_PER_VALUE + INLINE_NODES - budget.nodes_left
            self._nodes += nodes
            self._nodes_of_history += nodes
        return Found(value, room - budget.output_left)

    def keep(self, size: int) -> bool:
        """Whether an output of that size can be kept here, and not only in its row; it counts then."""
        if size > most_inline(self.room):
            return False
        self.room -= size
        return True
