"""Versions of workflows, prepared to be run; a version never changes, so each is prepared once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from database import Database
from engine.calls import JSONObject
from engine.plan import Plan
from language.definition import ConditionStep, Definition, Execution, WebhookStep
from language.step_evaluation import RequestTemplates
from micro_batcher import MicroBatcher
from models.automations import versions
from models.automations.versions import StoredVersion, VersionKey
from models.errors import NotFound
from models.runs import setbacks
from models.runs.run_work import Of

# Of definitions, as JSON, that are kept prepared: in memory they take some 25 times as much.
_KEPT_BYTES = 2 * 1024 * 1024
# So many are loaded, and then prepared, together; each takes a quarter of a millisecond and more.
_TOGETHER = 32
# Of one or two runs the data may be to blame.
_FEWEST_FAILED = 3


@dataclass
class Trouble:
    """Records how our code fares with the runs of a version, in this process.

    Attributes:
        failed: the runs with which it has failed since it took the last one forward.
        excused: those with which it had failed before that: their data is to blame, and they count no more.
        proven: it has taken one forward since the version was loaded.
    """

    failed: set[UUID] = field(default_factory=set[UUID])
    excused: set[UUID] = field(default_factory=set[UUID])
    proven: bool = False

    @property
    def is_general(self) -> bool:
        """Tell whether so many runs have failed in a row that others of the version are not to be tried."""
        return len(self.failed) >= _FEWEST_FAILED

    @property
    def may_stand(self) -> bool:
        """Tell whether the version may be set aside, as far as this process knows."""
        return bool(self.failed) or not self.proven

    def has_failed(self, run_id: UUID) -> bool:
        """Tell whether our code has failed with a run before."""
        return run_id in self.failed or run_id in self.excused

    def note_failure(self, run_id: UUID) -> None:
        """Note that our code has failed with a run."""
        if run_id not in self.excused:
            self.failed.add(run_id)

    def note_success(self) -> None:
        """Note that our code has taken a run forward."""
        self.proven = True
        self.excused |= self.failed
        self.failed.clear()


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
        trouble: that our code has with its runs.
    """

    plan: Plan
    workflow: JSONObject
    templates: dict[str, RequestTemplates]
    read: list[str]
    handler: UUID | None = None
    execution: Execution | None = None
    trouble: Trouble = field(default_factory=Trouble)

    async def prove(self, database: Database, of: Of) -> None:
        """Note that our code has taken a run forward: the version is set aside no longer."""
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
    """The versions that this process has run last."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: dict[VersionKey, _Kept] = {}
        self._size = 0
        self._batcher = MicroBatcher(self._read, most=_TOGETHER)

    def trouble_of(self, automation_id: UUID, version: int) -> Trouble:
        """Return the trouble that our code has with a version; of one that is not in memory, a new one."""
        kept = self._kept.get((automation_id, version))
        return kept.version.trouble if kept else Trouble()

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
