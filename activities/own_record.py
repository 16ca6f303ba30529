"""Writes the progress, the interrupted steps and the early end of runs that have their own workflows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import logs
from database import AWAY
from execution.own_execution import OwnExecution, merge_step
from execution.run_executor import ENGINE_ERROR, RunServices, store_cancelled_steps
from execution.shift import AGAIN_SECONDS
from execution.versions import VersionCache
from language.progress import Progress, read_progress
from language.records import StepError
from models.runs import own_runs, setbacks
from models.runs.run_writes import Change, End
from workflows.messages import OwnRun

_log = logs.get(__name__)


class OwnRecord:
    """The record of runs that have workflows of their own: their progress, and how they end early."""

    def __init__(self, services: RunServices, versions: VersionCache) -> None:
        self._database = services.database
        self._writer = services.writer
        self._failures = services.failures
        self._build = services.admission.build
        self._versions = versions

    async def set_aside(self, given: OwnRun) -> None:
        """Set a run aside with which our code has failed; fail it if no build is left to try."""
        async with self._database.connection() as connection:
            of = await own_runs.find_of(connection, given.run_id, given.claim_id)
            hopeless = await setbacks.set_run_aside(connection, given.run_id, given.claim_id, self._build)
        if of is not None:
            self._failures.note(of.account_id, failed=True)
            # If this is one failure too many, the next worker that claims runs of the version sets it aside.
            self._versions.trouble_of(of.automation_id, of.version).note_failure(given.run_id)
        if hopeless:
            await self.fail(given, ENGINE_ERROR)

    async def fail(self, given: OwnRun, why: StepError) -> None:
        """End a run as failed, if the workflow still has it."""
        async with self._database.connection() as connection:
            row = await own_runs.load(connection, given.run_id, given.claim_id)
        if row is not None:
            version = await self._versions.load(row.of.automation_id, row.of.version)
            end = End("failed", why, handler=version.handler, has_children=True)
            await self._writer.write(Change(given.claim_id, given.run_id, [], end, row.run.parent_run_id))

    async def append(self, execution: OwnExecution, step_id: str | None = None) -> None:
        """Record the finished steps of a run, and the interrupted one, if it was cancelled.

        Of other steps under way it knows what they were when its call began; the run's progress knows more.
        """
        records = [
            one for one in execution.give_up()
            if one.status != "cancelled" or one.step_id == step_id or one.items_total is not None
        ]  # fmt: skip
        await store_cancelled_steps(self._database, records)

    async def change_progress(
        self, execution: OwnExecution, put: Callable[[Progress], Progress], *, went_on: bool = True
    ) -> bool:
        """Write the progress of a step, safely beside other steps; return False if the run is not ours."""

        def change(stored: Any) -> str:
            return put(read_progress(stored)).model_dump_json()

        run = execution.row.run
        while True:
            try:
                async with self._database.connection() as connection:
                    return await own_runs.change_progress(
                        connection, run.run_id, run.claim_id, change, went_on=went_on
                    )
            except AWAY as error:
                # A call under way continues meanwhile: it is not repeated because of this.
                _log.warning("database_away", run_id=str(run.run_id), error=str(error))
                await asyncio.sleep(AGAIN_SECONDS)

    async def put_step(self, execution: OwnExecution, step_id: str) -> bool:
        """Write the progress of a step over items; return False if the workflow no longer has the run."""
        mine = execution.driver.progress().steps.get(step_id)
        if mine is None:
            return True
        read = read_progress(execution.row.run.progress).steps.get(step_id)
        known = execution.known_waits.setdefault(step_id, {} if read is None else {**read.items})
        is_ours = await self.change_progress(
            execution, lambda stored: merge_step(stored, step_id, known, mine)
        )
        known |= mine.items
        return is_ours
