"""The execution of one run, with its failures handled."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

import psycopg

import logs
from database import AWAY, Connection, Database
from engine.calls import Call
from engine.driver import Driver
from engine.run_room import ProcessRoom, RunRoom
from execution import observation
from execution.admission import Admission
from execution.attempts import Performer
from execution.claim_gate import FailureWatch
from execution.drivers import create_driver
from execution.run_execution import CallResult, Execution, RunClaim
from execution.run_recorder import DatabaseAway, RunRecorder, UnstorableRecord
from execution.shift import AGAIN_SECONDS, Group
from execution.versions import LoadedVersion
from language.records import StepError, StepRecord
from models.priorities import ALONE, WAITED
from models.runs import setbacks, shifts
from models.runs.cancelled_steps import record_cancelled_steps
from models.runs.run_loading import Recorded
from models.runs.run_work import ClaimedRun
from models.runs.run_writes import Change, End
from outbound.lease import LeaseLost

_log = logs.get(__name__)
NOT_STORED = StepError(code="not_stored", message="The database cannot store the output of the run.")
ENGINE_ERROR = StepError(
    code="engine_error",
    message="The service could not execute this run. See its log for `run_set_aside`.",
)


@dataclass(frozen=True, slots=True)
class RunServices:
    """The resources that both carriers of runs share.

    Attributes:
        database: the database with the runs.
        writer: writes their changes.
        performer: executes their calls.
        failures: records whose runs advanced, and with whose runs our code failed.
        admission: whether this build takes work; its name tells failures of several builds apart.
        room: the room of runs in this process.
    """

    database: Database
    writer: RunRecorder
    performer: Performer
    failures: FailureWatch
    admission: Admission
    room: ProcessRoom


class RunExecutor:
    """Executes runs, each independently."""

    def __init__(self, services: RunServices) -> None:
        self.dropping = False
        self._database = services.database
        self._writer = services.writer
        self._performer = services.performer
        self._failures = services.failures
        self._build = services.admission.build
        self._room = services.room
        self._executions: dict[UUID, Execution] = {}

    def recheck_answers(self, run_ids: Iterable[UUID]) -> None:
        """Make these runs check again for answers that they wait for."""
        for run_id in run_ids:
            if (execution := self._executions.get(run_id)) is not None:
                execution.recheck_answers()

    async def run(self, group: Group, version: LoadedVersion, run: ClaimedRun, recorded: Recorded) -> None:
        """Execute one run; its failures do not affect others.

        Args:
            group: the group with which it was claimed.
            version: the version of its workflow.
            run: the run, with the data of its rows.
            recorded: its finished work.
        """
        execution: Execution | None = None
        room = RunRoom(self._room, group.of.account_id)
        observation.observe_run(group.of, run, version)
        try:
            if run.priority > ALONE and await self._is_hopeless_alone(group, run):
                await self.give_up(group, version, run)
                return
            execution = self._executions[run.run_id] = self._execution(
                group, version, create_driver(version, run, recorded, room), run
            )
            left = await execution.run()
            if left == "lost":
                # The write that would have recorded its steps may have found that the run was cancelled.
                await store_cancelled_steps(self._database, execution.give_up())
                return
            self._failures.note(group.of.account_id, failed=False)
            if version.trouble.may_stand:
                await group.retry_until_available(lambda: version.prove(self._database, group.of))
        except DatabaseAway as error:
            _log.warning("run_left_to_others", run_id=str(run.run_id), error=str(error))
        except (asyncio.CancelledError, LeaseLost):
            # The run was cancelled, or this process stops or has lost its shift.
            if execution is not None and not (group.held.lost or self.dropping):
                await store_cancelled_steps(self._database, execution.give_up())
        except UnstorableRecord as refused:
            _log.error("run_not_stored", run_id=str(run.run_id), error=str(refused))
            await self._fail(group, version, run, NOT_STORED)
        except Exception as error:
            if self._failures.note_fault(error):
                _log.error("runs_given_back", runs=1, run_id=str(run.run_id), exc_info=error)
                claim = {run.run_id: run.claim_id}
                await group.persist(self._database, lambda connection: shifts.requeue_runs(connection, claim))
                return
            _log.error("run_set_aside", run_id=str(run.run_id), exc_info=error)
            self._failures.note(group.of.account_id, failed=True)
            version.trouble.note_failure(run.run_id)
            await self._set_aside(group, version, run)
        finally:
            room.release()
            if self._executions.get(run.run_id) is execution:
                self._executions.pop(run.run_id, None)

    def _execution(self, group: Group, version: LoadedVersion, driver: Driver, run: ClaimedRun) -> Execution:
        async def perform(call: Call) -> CallResult:
            return await self._perform(group, version, run.run_id, call)

        waited_version = group.of.version if run.priority == WAITED else None
        claim = RunClaim(run.claim_id, version.handler, run.parent_run_id, waited_version)
        return Execution(group.held, claim, driver, perform, self._writer.write)

    async def _perform(self, group: Group, version: LoadedVersion, run_id: UUID, call: Call) -> CallResult:
        """Execute a call, and again under the same id after the database was away; wait for a beat before."""
        while True:
            try:
                return await self._performer.perform(
                    group.of.account_id, group.of.automation_id, run_id, call, version
                )
            except AWAY as error:
                _log.warning("database_away", run_id=str(run_id), error=str(error))
            await asyncio.sleep(AGAIN_SECONDS)
            await group.held.wait_until_calls_can_start()

    async def _set_aside(self, group: Group, version: LoadedVersion, run: ClaimedRun) -> None:
        async def aside(connection: Connection) -> bool:
            return await setbacks.set_run_aside(connection, run.run_id, run.claim_id, self._build)

        if await group.persist(self._database, aside):
            await self.give_up(group, version, run)

    async def _is_hopeless_alone(self, group: Group, run: ClaimedRun) -> bool:
        async def note(connection: Connection) -> bool:
            return await setbacks.note_trial(connection, run.run_id, run.claim_id, self._build)

        _log.error("run_goes_alone", run_id=str(run.run_id))
        return await group.persist(self._database, note)

    async def were_put_aside(self, group: Group, runs: list[ClaimedRun]) -> bool:
        """Queue runs again if their version is set aside now; return whether it is."""
        automation_id, number = group.of.automation_id, group.of.version
        claims = {run.run_id: run.claim_id for run in runs}

        async def put_aside(connection: Connection) -> bool:
            if not await setbacks.is_version_aside(connection, automation_id, number):
                return False
            await setbacks.put_aside(connection, automation_id, number, claims)
            return True

        return await group.persist(self._database, put_aside)

    async def set_version_aside(
        self,
        group: Group,
        version: LoadedVersion | None,
        runs: list[ClaimedRun],
        error: Exception | None = None,
    ) -> None:
        """Queue runs of a version with which our code fails again; fail them if the version is hopeless.

        Args:
            group: the group with which they were claimed.
            version: None if our code could not read it.
            runs: runs of the group that must not be tried now.
            error: the error of reading it.
        """
        if await self.were_put_aside(group, runs):
            return
        claims = {run.run_id: run.claim_id for run in runs}
        automation_id, number = group.of.automation_id, group.of.version
        _log.error("version_set_aside", workflow_id=str(automation_id), version=number, exc_info=error)
        if await group.persist(
            self._database,
            lambda c: setbacks.set_version_aside(c, automation_id, number, claims, self._build),
        ):
            for run in runs:
                await self.give_up(group, version, run)

    async def give_up(self, group: Group, version: LoadedVersion | None, run: ClaimedRun) -> None:
        """Fail a run that two builds could not execute within a day."""
        await self._fail(group, version, run, ENGINE_ERROR)

    async def _fail(
        self, group: Group, version: LoadedVersion | None, run: ClaimedRun, why: StepError
    ) -> None:
        end = End("failed", why, handler=version and version.handler, has_children=True)
        try:
            await self._writer.write(Change(run.claim_id, run.run_id, [], end, run.parent_run_id))
        except UnstorableRecord as error:
            _log.error("end_not_stored", run_id=str(run.run_id), error=str(error))


async def store_cancelled_steps(database: Database, records: Sequence[StepRecord]) -> None:
    """Record the finished and interrupted steps of a run that was cancelled, unless the database fails."""
    if not records:
        return
    try:
        async with database.connection() as connection:
            await record_cancelled_steps(connection, records)
    except psycopg.Error as error:
        _log.warning("cancelled_steps_not_stored", error=str(error))
