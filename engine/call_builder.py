"""Building of calls: what a call of a step is given of the run's state."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from engine.calls import Call, CallKind
from engine.plan import Plan
from engine.state import RunState
from language.steps import CallingStep, Step

_CALL_KINDS: dict[str, CallKind] = {
    "webhook": "send", "wait": "collect", "workflow": "run_child", "remember": "remember", "emit": "emit"
}  # fmt: skip


def call_kind(step: Step) -> CallKind:
    """Return the kind of the calls that a step makes for its result."""
    return _CALL_KINDS.get(step.type, "look_up")


class CallBuilder:
    """Builds the calls of one run's steps; each step must be under way."""

    def __init__(self, plan: Plan, state: RunState) -> None:
        self._plan = plan
        self._state = state

    def build(
        self, step: Step, kind: CallKind, attempt: int = 0, item: int | None = None, value: Any = None,
        roots: tuple[str, ...] | None = None,
    ) -> Call:  # fmt: skip
        """Return a call.

        Args:
            step: the step that makes it.
            kind: of the call.
            attempt: its number; by default the step's.
            item: the index of its item, in a step with `for_each`.
            value: of the item.
            roots: the values that it reads; by default those of the step.
        """
        under_way = self._state.under_way[step.id]
        if roots is None:
            iterated = self._plan.iterates[step.id] if item is None else ()
            roots = tuple(dict.fromkeys((*self._plan.reads[step.id], *iterated)))
        sends = step.id in self._plan.sends_run_data
        output_of = self._state.find_last_completed(self._plan.awaits[step.id]) if sends else None
        if output_of is not None and kind == "send":
            roots = tuple(dict.fromkeys((*roots, output_of)))
        scope, stored = self._state.read_roots(step.id, roots)
        timeout = step.timeout if isinstance(step, CallingStep) else None
        return Call(
            kind=kind,
            step=step,
            attempt=attempt or max(1, under_way.attempts),
            scope=scope if item is None else {**scope, "item": value},
            stored=stored,
            started_at=under_way.began,
            item=item,
            deadline=None if timeout is None else under_way.began + timedelta(seconds=timeout),
            output_of=output_of,
            items_total=0 if item is None or under_way.window is None else under_way.window.tally.total,
        )
