"""The plan of a definition: what each step waits for, its branch, and the values that it reads."""

from __future__ import annotations

from collections.abc import Iterable

from language.branches import branches_of, needs_of
from language.definition import SCOPE_ROOTS, Definition
from language.expressions import Reference
from language.expressions.references import WHOLE_SCOPE
from language.fields import resolve_fields
from language.steps import CallingStep, Step, WebhookStep
from language.validation.checks import reads_of, roots_of
from language.validation.sources import reads_resume_url
from language.webhook_requests import RUN_DATA


class Plan:
    """A prepared definition: what each step waits for, its branch, and the values that it reads.

    Attributes:
        calls: the number of steps that make calls, at least 1.
        needs: by step, the steps that it waits for; `needed_by` is the reverse.
        reads: by step, the roots of the scope that its config reads.
        iterates: by step, those that its `for_each` reads.
        decides: by step, those that its `if` reads.
        resume_urls: the webhook steps that read resume URLs.
        awaits: by step, the steps that are done before it, also indirectly. It sees no others: what it reads
            must not hang on when those end.
        sends_run_data: the webhook steps that send the data of their run.
    """

    def __init__(self, definition: Definition) -> None:
        self.steps: list[Step] = resolve_fields(definition.steps)
        self.calls = max(1, sum(isinstance(step, CallingStep) for step in self.steps))
        self.position = {step.id: index for index, step in enumerate(self.steps)}
        self.needs = needs_of(definition)
        self.needed_by: dict[str, list[str]] = {step.id: [] for step in self.steps}
        for step_id, needs in self.needs.items():
            for need in needs:
                self.needed_by.setdefault(need, []).append(step_id)
        self.branch_of = {
            member: (branch.step_id, branch.outcome)
            for branch in branches_of(definition)
            for member in branch.members
        }
        reads = {step.id: reads_of(step) for step in self.steps}
        self.reads = {step_id: self._roots(of.config) for step_id, of in reads.items()}
        self.iterates = {step_id: self._roots(of.for_each) for step_id, of in reads.items()}
        self.decides = {step_id: self._roots(of.condition) for step_id, of in reads.items()}
        self.resume_urls = frozenset(
            step.id
            for step in self.steps
            if isinstance(step, WebhookStep) and any(map(reads_resume_url, reads[step.id].config))
        )
        self.awaits = dict(zip(self.position, self._all_needs(), strict=True))
        self.sends_run_data = frozenset(
            step.id for step in self.steps if isinstance(step, WebhookStep) and step.config.sends_run_data
        )
        for step_id in self.sends_run_data:
            self.reads[step_id] = tuple(dict.fromkeys((*self.reads[step_id], *RUN_DATA)))
        self._outputs_read = {
            root
            for of in (self.reads, self.iterates, self.decides)
            for roots in of.values()
            for root in roots
        }.union(*map(self.awaits.__getitem__, self.sends_run_data))

    def _roots(self, references: Iterable[Reference]) -> tuple[str, ...]:
        roots = roots_of(references)
        return (*SCOPE_ROOTS, *self.position) if WHOLE_SCOPE in roots else roots

    def _all_needs(self) -> Iterable[frozenset[str]]:
        """Return for each step all steps that it waits for, also indirectly.

        Needed steps come first in the list.
        """
        found: dict[str, frozenset[str]] = {}
        for step in self.steps:
            needs = self.needs[step.id]
            found[step.id] = frozenset(needs).union(*(found[need] for need in needs))
        return found.values()

    def keeps(self, step_id: str) -> bool:
        """Return whether a later step reads this step's output."""
        return step_id in self._outputs_read or "steps" in self._outputs_read
