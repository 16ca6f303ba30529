"""Versions of workflows, prepared for execution; a version never changes, so each is prepared once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from database import Database
from engine.calls import JSONObject
from engine.plan import Plan
from language.definition import Definition, Execution
from language.steps import ConditionStep, WebhookStep
from language.webhook_requests import RequestTemplates
from micro_batcher import MicroBatcher
from models.automations import versions
from models.automations.versions import StoredVersion, VersionKey
from models.errors import NotFound
from models.runs import setbacks
from models.runs.run_work import VersionRef

# The size of the prepared definitions in memory, as JSON: in memory they take some 25 times as much.
_KEPT_BYTES = 2 * 1024 * 1024
# The number of versions that are loaded and prepared together; each takes at least a quarter of a
# millisecond.
_TOGETHER = 32
# With one or two failed runs, their data may be at fault.
_FEWEST_FAILED = 3


@dataclass
class Trouble:
    """The success of our code with the runs of a version, in this process.

    Attributes:
        failed: the runs with which it has failed since the last success.
        excused: the runs with which it had failed before that: their data is at fault, and they no longer
        count.
        proven: whether a run has advanced since the version was loaded.
    """

    failed: set[UUID] = field(default_factory=set[UUID])
    excused: set[UUID] = field(default_factory=set[UUID])
    proven: bool = False

    @property
    def is_general(self) -> bool:
        """Return whether so many runs have failed in a row that others of the version must not be tried."""
        return len(self.failed) >= _FEWEST_FAILED

    @property
    def may_stand(self) -> bool:
        """Return whether the version may be set aside, as far as this process knows."""
        return bool(self.failed) or not self.proven

    def has_failed(self, run_id: UUID) -> bool:
        """Return whether our code has failed with a run before."""
        return run_id in self.failed or run_id in self.excused

    def note_failure(self, run_id: UUID) -> None:
        """Record that our code has failed with a run."""
        if run_id not in self.excused:
            self.failed.add(run_id)

    def note_success(self) -> None:
        """Record that a run has advanced."""
        self.proven = True
        self.excused |= self.failed
        self.failed.clear()


@dataclass(frozen=True)
class LoadedVersion:
    """A version of a workflow, prepared for execution.

    Attributes:
        plan: the plan of its steps.
        workflow: the value of `workflow` in expressions.
        templates: the templates of its webhook steps, by step.
        read: the steps whose outputs a continued run needs: later steps read them, or they decide.
        handler: the workflow that handles its failed runs.
        execution: the carrier of its runs, if it is set.
        trouble: the success of our code with its runs.
    """

    plan: Plan
    workflow: JSONObject
    templates: dict[str, RequestTemplates]
    read: list[str]
    handler: UUID | None = None
    execution: Execution | None = None
    trouble: Trouble = field(default_factory=Trouble)

    async def prove(self, database: Database, of: VersionRef) -> None:
        """Record that a run has advanced, so that the version is no longer set aside."""
        self.trouble.note_success()
        try:
            async with database.connection() as connection:
                await setbacks.take_version_back(connection, of.automation_id, of.version)
        except BaseException:
            self.trouble.proven = False
            raise


class _Kept(NamedTuple):
    version: LoadedVersion
    size: int


class VersionCache:
    """The versions that this process has executed last."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: dict[VersionKey, _Kept] = {}
        self._size = 0
        self._batcher = MicroBatcher(self._read_versions, most=_TOGETHER)

    def trouble_of(self, automation_id: UUID, version: int) -> Trouble:
        """Return the trouble with a version; a new one if the version is not in memory."""
        kept = self._kept.get((automation_id, version))
        return kept.version.trouble if kept else Trouble()

    async def load(self, automation_id: UUID, version: int) -> LoadedVersion:
        """Load a version, in one statement with the others that are being loaded.

        Raises:
            NotFound: there is no such version.
            pydantic.ValidationError: this build cannot read it.
        """
        key = (automation_id, version)
        if (kept := self._kept.pop(key, None)) is not None:
            # Reinserted last: the version used longest ago is dropped first.
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

    async def _read_versions(self, keys: list[VersionKey]) -> list[StoredVersion | Exception]:
        async with self._database.connection() as connection:
            stored = await versions.load_definitions(connection, keys)
        return [stored.get(key) or NotFound("workflow") for key in keys]


def prepare(automation_id: UUID, definition: Definition) -> LoadedVersion:
    """Prepare a version for execution."""
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
