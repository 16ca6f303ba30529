"""Versions of workflows, prepared to be run; a version never changes, so each is prepared once."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from database import Database
from engine.calls import JSONObject
from engine.plan import Plan
from language.definition import ConditionStep, Definition, Execution, WebhookStep
from language.step_evaluation import RequestTemplates
from models import versions

_MOST = 4096


@dataclass(frozen=True)
class LoadedVersion:
    """A version of a workflow.

    Attributes:
        plan: of its steps.
        workflow: what expressions read as `workflow`.
        templates: of the webhook steps, by step.
        read: the steps whose outputs are needed to go on with a run: by later steps, or since they decide.
        handler: the workflow that runs when a run of it has failed.
        execution: what takes its runs forward, if it says so.
    """

    plan: Plan
    workflow: JSONObject
    templates: dict[str, RequestTemplates]
    read: list[str]
    handler: UUID | None = None
    execution: Execution | None = None


class VersionCache:
    """The versions that this process has run last."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loaded: dict[tuple[UUID, int], LoadedVersion] = {}

    def knows(self, automation_id: UUID, version: int) -> bool:
        """Tell whether a version is in memory."""
        return (automation_id, version) in self._loaded

    async def load(self, automation_id: UUID, version: int) -> LoadedVersion:
        """Load a version.

        Raises:
            pydantic.ValidationError: this build cannot read it.
        """
        key = (automation_id, version)
        if (loaded := self._loaded.pop(key, None)) is None:
            async with self._database.connection() as connection:
                stored = await versions.load_definition(connection, automation_id, version)
            loaded = prepare(automation_id, Definition.model_validate(stored))
            while len(self._loaded) >= _MOST:
                del self._loaded[next(iter(self._loaded))]
        self._loaded[key] = loaded
        return loaded


def prepare(automation_id: UUID, definition: Definition) -> LoadedVersion:
    """Prepare a version."""
    plan = Plan(definition)
    return LoadedVersion(
        plan=plan,
        workflow={"id": str(automation_id), "name": definition.name},
        templates={
            step.id: RequestTemplates(step.config) for step in plan.steps if isinstance(step, WebhookStep)
        },
        read=[step.id for step in plan.steps if plan.keeps(step.id) or isinstance(step, ConditionStep)],
        handler=None if definition.on_failure is None else definition.on_failure.workflow_id,
        execution=definition.execution,
    )
