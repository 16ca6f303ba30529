"""Executes one run, and sees to what goes wrong with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from uuid import UUID

import psycopg

import logs
from activities.execution import Done, Execution
from activities.halting import FailureWatch
from activities.performing import Performer
from activities.shift import AGAIN_SECONDS, Group
from activities.versions import LoadedVersion
from activities.writing import Refused, RunWriter
from database import AWAY, Connection, Database
from engine.calls import Call
from engine.driver import Driver
from engine.state import RunInput
from language.progress import read_progress
from language.records import StepError
from models import setbacks
from models.priorities import WAITED
from models.run_loading import Recorded
from models.run_work import ClaimedRun
from models.run_writes import Change, End, record_cancelled_steps
from outbound.lease import LeaseLost

_log = logs.get(__name__)


class RunExecutor:
    """Takes runs forward, each by itself."""

    def __init__(
        self, database: Database, writer: RunWriter, performer: Performer, failures: FailureWatch, build: str
    ) -> None:
        """Prepare.

        Args:
            database: where the runs are.
            writer: writes what becomes of them.
            performer: does their calls.
            failures: is told whose runs our code could take forward, and whose not.
            build: names the code, so that one can tell whether another has failed too.
        """
        self.dropping = False
        self._database = database
        self._writer = writer
        self._performer = performer
        self._failures = failures
        self._build = build
        self._executions: dict[UUID, Execution] = {}

    def look_again(self, run_ids: Iterable[UUID]) -> None:
        """Have these runs look whether what they wait for from others has come."""
        for run_id in run_ids:
            if (execution := self._executions.get(run_id)) is not None:
                execution.look_again()

    async def run(self, group: Group, version: LoadedVersion, run: ClaimedRun, recorded: Recorded) -> None:
        """Take one run forward. What is wrong with it is nobody else's affair.

        Args:
            group: that it was claimed with.
            version: of its workflow.
            run: as its rows have it.
            recorded: what it has done.
        """
        execution: Execution | None = None
        try:
            execution = self._executions[run.run_id] = self._execution(group, version, run, recorded)
            left = await execution.run()
            self._failures.note(group.of.account_id, failed=False)
            if left == "lost":
                # The write that would have told of its steps may have found that somebody has cancelled it.
                await self._append(execution)
        except (asyncio.CancelledError, LeaseLost):
            # Somebody has cancelled the run, or this process stops, or has lost its shift.
            if execution is not None and not (group.held.lost or self.dropping):
                await self._append(execution)
        except Refused as refused:
            _log.error("run_not_stored", run_id=str(run.run_id), error=str(refused))
            why = StepError(code="not_stored", message="What the run gave cannot be stored.")
            await self._fail(group, version, run, why)
        except Exception as error:
            _log.error("run_set_aside", run_id=str(run.run_id), exc_info=error)
            self._failures.note(group.of.account_id, failed=True)
            await self._set_aside(group, version, run)
        finally:
            if self._executions.get(run.run_id) is execution:
                self._executions.pop(run.run_id, None)

    def _execution(
        self, group: Group, version: LoadedVersion, run: ClaimedRun, recorded: Recorded
    ) -> Execution:
        driver = Driver(
            version.plan,
            RunInput(
                run_id=run.run_id,
                started_at=run.started_at,
                trigger=run.trigger,
                request=run.request,
                size=run.size,
                stored=run.unloaded,
                done=recorded.done(),
                items=recorded.items_done(),
                progress=read_progress(run.progress),
                queued_at=run.queued_at,
            ),
            version.workflow,
        )

        async def perform(call: Call) -> Done:
            return await self._perform(group, version, run.run_id, call)

        return Execution(
            group.held,
            run.claim_id,
            driver,
            perform,
            self._writer.write,
            handler=version.handler,
            parent_run_id=run.parent_run_id,
            waited_version=group.of.version if run.priority == WAITED else None,
        )

    async def _perform(self, group: Group, version: LoadedVersion, run_id: UUID, call: Call) -> Done:
        """Do a call, again under the same id when the database was away; not without a beat, as any call."""
        while True:
            try:
                return await self._performer.perform(
                    group.of.account_id, group.of.automation_id, run_id, call, version
                )
            except AWAY as error:
                _log.warning("database_away", run_id=str(run_id), error=str(error))
            await asyncio.sleep(AGAIN_SECONDS)
            await group.held.until_calls_may_begin()

    async def _append(self, execution: Execution) -> None:
        """Write what a run had under way that somebody has cancelled."""
        records = execution.give_up()
        if records:
            try:
                async with self._database.connection() as connection:
                    await record_cancelled_steps(connection, records)
            except psycopg.Error as error:
                _log.warning("cancelled_steps_not_stored", error=str(error))

    async def _set_aside(self, group: Group, version: LoadedVersion, run: ClaimedRun) -> None:
        async def aside(connection: Connection) -> bool:
            return await setbacks.set_run_aside(connection, run.run_id, run.claim_id, self._build)

        if await group.persist(self._database, aside):
            why = StepError(code="engine_error", message="The engine could not go on with this run.")
            await self._fail(group, version, run, why)

    async def _fail(self, group: Group, version: LoadedVersion, run: ClaimedRun, why: StepError) -> None:
        end = End("failed", why, handler=version.handler, has_children=True)
        try:
            await self._writer.write(Change(run.claim_id, run.run_id, [], end, run.parent_run_id))
        except Refused as error:
            _log.error("end_not_stored", run_id=str(run.run_id), error=str(error))
