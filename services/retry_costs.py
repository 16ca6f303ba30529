"""The highest cost of retries, which is known before they run."""

from __future__ import annotations

from collections.abc import Iterable

from database import Connection
from language.definition import Definition
from language.steps import MAX_ITEMS, LookupStep, WorkflowStep
from models.automations import versions
from models.runs import bulk_actions
from models.runs.bulk_choice import ChosenRun
from models.runs.confirmations import RetriedVersion
from providers.registry import KINDS


async def find_highest_cost(
    connection: Connection, chosen: Iterable[ChosenRun], version: RetriedVersion
) -> int | None:
    """Return the most credits that retries can cost; None if one of them runs other workflows.

    Finished steps are not paid again, but are counted here: this is the most, and no estimate.
    """
    runs = list(chosen)
    keys = [(run.automation_id, run.version) for run in runs]
    if version == "newest":
        workflows = await bulk_actions.find_workflows(connection, [run.id for run in runs])
        keys = [workflows[run.id] for run in runs]
    stored = await versions.load_definitions(connection, sorted(set(keys)))
    costs = {key: _cost_of(Definition.model_validate(one.definition)) for key, one in stored.items()}
    total = 0
    for key in keys:
        cost = costs.get(key, 0)
        if cost is None:
            return None
        total += cost
    return total


def _cost_of(definition: Definition) -> int | None:
    """Return the most credits that a run of a definition can cost; None if it runs other workflows."""
    if any(isinstance(step, WorkflowStep) for step in definition.steps):
        return None
    return sum(
        KINDS[step.kind].price * (1 if step.for_each is None else MAX_ITEMS)
        for step in definition.steps
        if isinstance(step, LookupStep)
    )
