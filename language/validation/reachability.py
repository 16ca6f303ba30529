"""Steps that can never run, because they depend on a condition whose outcome is known in advance."""

from __future__ import annotations

from collections.abc import Iterator

from language import expressions
from language.branches import branches_of, needs_of
from language.definition import Definition
from language.expressions import Budget, ExpressionError
from language.findings import Finding
from language.steps import ConditionStep

_NODES = 10_000


def unreachable_steps(definition: Definition) -> Iterator[Finding]:
    """Yield the steps on branches that are never taken, or that depend on a condition that is never true.

    These are the rules of `dataflow.RowState`, for what is the same in every run.
    """
    needs = needs_of(definition)
    branch_of = {
        m: (branch.step_id, branch.outcome) for branch in branches_of(definition) for m in branch.members
    }
    # One budget for all, so that checking a definition never takes seconds.
    budget = Budget(nodes=_NODES)
    outcomes: dict[str, str] = {}
    stops: dict[str, str] = {}
    never: set[str] = set()
    for index, step in enumerate(definition.steps):
        source, outcome = branch_of.get(step.id, ("", ""))
        stopped_by = next((stops[need] for need in needs[step.id] if need in stops), None)
        if stopped_by is not None:
            stops[step.id] = stopped_by
            reason = f"the condition {stopped_by} is never true, which ends the run"
        elif source in never:
            reason = f"it is on a branch of {source}, which can never run"
        elif source in outcomes and outcome in ("then", "else") and outcomes[source] != outcome:
            reason = f"the condition {source} is {'never' if outcome == 'then' else 'always'} true"
        else:
            constant = _constant(step.config.expression, budget) if isinstance(step, ConditionStep) else None
            if isinstance(step, ConditionStep) and constant is not None:
                outcomes[step.id] = "then" if constant else "else"
                if not constant and step.config.then is None and step.config.otherwise is None:
                    stops[step.id] = step.id
            continue
        never.add(step.id)
        yield Finding(f"/steps/{index}", "unreachable_step", f"This step can never run: {reason}.")


def _constant(text: str, budget: Budget) -> bool | None:
    """Return whether an expression without references is true; None if it has some, or always fails."""
    try:
        expression = expressions.compile(text)
        if expression.references:
            return None
        return expressions.truthy(expression.evaluate({}, budget, is_result=False))
    except ExpressionError:
        return None
