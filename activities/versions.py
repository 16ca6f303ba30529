"""Versions of workflows, prepared to be run; a version never changes, so each is prepared once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from database import Database
from engine.calls import JSONObject
from engine.plan import Plan
from language.definition import ConditionStep, Definition, Execution, WebhookStep
from language.step_evaluation import RequestTemplates
from micro_batcher import MicroBatcher
from models import versions
from models.errors import NotFound
from models.versions import StoredVersion, VersionKey

# Of definitions, as JSON, that are kept prepared: in memory they take some 25 times as much.
_KEPT_BYTES = 2 * 1024 * 1024
# So many are loaded, and then prepared, together; each takes a quarter of a millisecond and more.
_TOGETHER = 32


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


class _Kept(NamedTuple):
    version: LoadedVersion
    size: int


class VersionCache:
    """The versions that this process has run last."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: dict[VersionKey, _Kept] = {}
        self._size = 0
        self._batcher = MicroBatcher(self._read, most=_TOGETHER)

    def knows(self, automation_id: UUID, version: int) -> bool:
        """Tell whether a version is in memory."""
        return (automation_id, version) in self._kept

    async def load(self, automation_id: UUID, version: int) -> LoadedVersion:
        """Load a version, by one statement with the others that are being loaded.

        Raises:
            NotFound: there is no such version.
            pydantic.ValidationError: this build cannot read it.
        """
        key = (automation_id, version)
        if (kept := self._kept.pop(key, None)) is not None:
            # What was run last is let go of last.
            self._kept[key] = kept
            return kept.version
        stored = await self._batcher.submit(key)
        loaded = prepare(automation_id, Definition.model_validate(stored.definition))
        if key not in self._kept:
            self._kept[key] = _Kept(loaded, stored.size)
            self._size += stored.size
        while self._size > _KEPT_BYTES and len(self._kept) > 1:
            self._size -= self._kept.pop(next(iter(self._kept))).size
        return loaded

    async def _read(self, keys: list[VersionKey]) -> list[StoredVersion | Exception]:
        async with self._database.connection() as connection:
            stored = await versions.load_definitions(connection, keys)
        return [stored.get(key) or NotFound("workflow") for key in keys]


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
