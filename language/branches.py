"""The dependencies of a definition's steps, and their branches, taken after a certain end of another step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from language.definition import Definition
from language.steps import ConditionStep


def needs_of(definition: Definition) -> dict[str, tuple[str, ...]]:
    """Return for each step the ids it waits for: its `needs` or the step before, and its branching step."""
    needs: dict[str, tuple[str, ...]] = {}
    previous: str | None = None
    for step in definition.steps:
        if step.needs is not None:
            needs[step.id] = tuple(dict.fromkeys(step.needs))
        else:
            needs[step.id] = (previous,) if previous is not None else ()
        previous = step.id
    for branch in branches_of(definition):
        for member in branch.members:
            if branch.step_id not in needs.get(member, (branch.step_id,)):
                needs[member] = (*needs[member], branch.step_id)
    return needs


class Branch(NamedTuple):
    """Later steps that run only after a certain end of an earlier one: `then`, `else` or `on_error`."""

    step_id: str
    outcome: Literal["then", "else", "on_error"]
    members: list[str]
    pointer: str


def branches_of(definition: Definition) -> Iterator[Branch]:
    """Yield all branches, in list order."""
    for index, step in enumerate(definition.steps):
        if isinstance(step, ConditionStep):
            pointer = f"/steps/{index}/config"
            if step.config.then is not None:
                yield Branch(step.id, "then", step.config.then, f"{pointer}/then")
            if step.config.otherwise is not None:
                yield Branch(step.id, "else", step.config.otherwise, f"{pointer}/else")
        if isinstance(step.on_error, list):
            yield Branch(step.id, "on_error", step.on_error, f"/steps/{index}/on_error")
