"""A definition, prepared: what each step waits for, which branch it hangs on, what it reads."""

from __future__ import annotations

from language.definition import SCOPE_ROOTS, Definition, Step, branches_of, needs_of
from language.expressions.references import WHOLE_SCOPE
from language.validation.checks import roots_iterated, roots_read


class Plan:
    """A definition, prepared: what each step waits for, which branch it hangs on, what it reads.

    Attributes:
        reads: by step, the roots of the scope that its config reads.
        iterates: by step, those that its `for_each` reads.
    """

    def __init__(self, definition: Definition) -> None:
        self.steps: list[Step] = list(definition.steps)
        self.position = {step.id: index for index, step in enumerate(self.steps)}
        self.needs = needs_of(definition)
        self.branch_of = {
            member: (branch.step_id, branch.outcome)
            for branch in branches_of(definition)
            for member in branch.members
        }
        self.reads = {step.id: self._named(roots_read(step)) for step in self.steps}
        self.iterates = {step.id: self._named(roots_iterated(step)) for step in self.steps}
        self._outputs_read = {
            root for reads in (self.reads, self.iterates) for roots in reads.values() for root in roots
        }

    def _named(self, roots: tuple[str, ...]) -> tuple[str, ...]:
        return (*SCOPE_ROOTS, *self.position) if WHOLE_SCOPE in roots else roots

    def keeps(self, step_id: str) -> bool:
        """Whether a later step reads this step's output."""
        return step_id in self._outputs_read or "steps" in self._outputs_read
