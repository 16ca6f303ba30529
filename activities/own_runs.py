"""The activities of a run's own workflow: deciding its next calls, making one call, waking, cancelling."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from uuid import UUID

from temporalio import activity
from temporalio.exceptions import ApplicationError

import logs
from activities.own_record import OwnRecord
from database import AWAY
from engine.calls import Call
from engine.run_room import RunRoom
from execution import clock, observation
from execution.drivers import create_driver
from execution.executor import Executor
from execution.heartbeat import heartbeats
from execution.own_execution import (
    ITEMS,
    ITEMS_AT_ONCE,
    OwnExecution,
    database_deadline,
    merge_progress,
    run_id_of,
)
from execution.run_execution import SHOWN_SECONDS, CallResult, attempt
from execution.run_executor import NOT_STORED, RunServices
from execution.run_recorder import DatabaseAway, StaleProgress, UnstorableRecord
from models.runs import cancellation, own_runs, run_loading
from models.runs.run_loading import Recorded
from models.runs.runs import QUEUED_CHANNEL
from notifications import Notifier
from outbound.lease import LeaseLost
from workflows.messages import (
    CANCEL_RUN,
    DECIDE_NEXT,
    NOT_ITS_RUN,
    PERFORM_STEP,
    WAKE_RUN,
    CallName,
    OwnRun,
    Todo,
)

_log = logs.get(__name__)
_Next = TypeVar("_Next", Todo, Todo | None)
_ELSEWHERE = Todo([], over="elsewhere")
# This many workers were lost with a call, one after the other: it may be the cause, and runs alone.
_MOST_LOST = 2


class OwnRunActivities:
    """The activities of a run's own workflow."""

    def __init__(
        self,
        services: RunServices,
        notifier: Notifier,
        executor: Executor,
        on_left: Callable[[UUID], None],
    ) -> None:
        """Create the activities.

        Args:
            services: what they share with the executor.
            notifier: notifies of queued and ended runs.
            executor: its shift proves that this process lives, so that calls may begin.
            on_left: called for each run that has ended here, or waits, and so needs no place.
        """
        self._database = services.database
        self._notifier = notifier
        self._writer = services.writer
        self._performer = services.performer
        self._executor = executor
        self._failures = services.failures
        self._room = services.room
        self._versions = executor.versions
        self._record = OwnRecord(services, self._versions)
        self._on_left = on_left

    @activity.defn(name=DECIDE_NEXT)
    async def decide_next(self, given: OwnRun, under_way: list[CallName]) -> Todo:
        """Decide from its rows what the run does next; write its finished work, and its wait."""
        self._check(given)
        return await self._unless_it_fails(given, self._decide_next(given, under_way))

    async def _decide_next(self, given: OwnRun, under_way: list[CallName]) -> Todo:
        while True:
            async with self._load(given, decides=True) as execution:
                if execution is None:
                    async with self._database.connection() as connection:
                        over = await own_runs.find_end(connection, given.run_id)
                    return self._release_if_left(given, Todo([], over=over or "elsewhere"))
                if (waits_until := execution.row.waits_until) is not None:
                    if waits_until <= clock.now():
                        await self._wake(given)
                    return self._release_if_left(given, execution.wait_until(waits_until))
                execution.impatient = True
                try:
                    todo = await self._go_on(execution, under_way)
                    return todo if under_way and todo.over is None else self._release_if_left(given, todo)
                except StaleProgress:
                    continue

    @activity.defn(name=PERFORM_STEP)
    async def perform_step(self, given: OwnRun, name: CallName, alone: bool) -> Todo | None:
        """Execute one call and write its result.

        Returns:
            The next work, if no other call is under way; else None, and the workflow asks.
        """
        self._check(given)
        told, attempts = activity.info().heartbeat_details, activity.info().attempt - 1
        # Any client of Temporal can send a heartbeat, with any number.
        ended = told[0] if told and isinstance(told[0], int) and 0 <= told[0] <= attempts else 0
        try:
            performing = self._perform_step(given, name, attempts - ended, ended, alone=alone)
            return await self._unless_it_fails(given, performing)
        except (Exception, asyncio.CancelledError):
            # The next attempt learns that this one ended by itself, and not with its worker.
            activity.heartbeat(ended + 1)
            raise

    async def _perform_step(
        self, given: OwnRun, name: CallName, lost: int, ended: int, *, alone: bool
    ) -> Todo | None:
        # Also before and after the call: evaluating may wait for a place, and writing for the database.
        async with heartbeats(ended), self._load(given) as execution:
            is_going = execution is not None and execution.row.waits_until is None
            calls = await execution.find(name, alone=alone) if execution is not None and is_going else []
            if execution is None or not calls:
                # The run has another carrier; or the call was made, and the workflow did not learn of it.
                return await self._decide_next(given, []) if alone else None
            if lost >= _MOST_LOST:
                _log.error("run_goes_alone", run_id=str(given.run_id), workers_lost=lost)
                async with self._database.connection() as connection:
                    await own_runs.queue_alone(connection, given.run_id, given.claim_id)
                return _ELSEWHERE
            try:
                if name.kind == ITEMS:
                    await self._perform_items(execution, name.step_id, calls)
                    return await self._decide_next(given, []) if alone else None
                done = await self._perform(execution, calls[0])
                return await self._take(given, execution, calls[0], done, alone=alone)
            except asyncio.CancelledError:
                # The run was cancelled, or this process stops.
                await self._record.append(execution, name.step_id)
                raise

    @activity.defn(name=WAKE_RUN)
    async def wake_run(self, given: OwnRun) -> None:
        """Queue the run, whose timer has ended."""
        self._check(given)
        await self._wake(given)

    async def _wake(self, given: OwnRun) -> None:
        async with database_deadline(), self._database.connection() as connection:
            queued = await own_runs.wake(connection, given.run_id)
        if queued:
            self._notifier.notify(QUEUED_CHANNEL)

    @activity.defn(name=CANCEL_RUN)
    async def cancel_run(self, given: OwnRun) -> None:
        """Cancel the run, whose workflow was cancelled in Temporal, if the workflow still has it."""
        self._check(given)
        self._on_left(given.run_id)
        async with self._database.connection() as connection:
            of = await own_runs.find_of(connection, given.run_id, given.claim_id)
            if of is None:
                return
            ended = await cancellation.cancel(connection, of.account_id, given.run_id)
        if ended:
            cancellation.notify_ends(self._notifier, ended)

    # ---- one run

    def _check(self, given: OwnRun) -> None:
        """Refuse any run but the workflow's own: other clients of Temporal can start workflows."""
        workflow_id = activity.info().workflow_id or ""
        if run_id_of(workflow_id) != given.run_id:
            raise ApplicationError("This workflow is not the run's.", type=NOT_ITS_RUN, non_retryable=True)

    @asynccontextmanager
    async def _load(self, given: OwnRun, *, decides: bool = False) -> AsyncGenerator[OwnExecution | None]:
        """Load the run for the block; its values have room in memory only within."""
        execution = await self._load_rows(given, decides=decides)
        try:
            yield execution
        finally:
            if execution is not None:
                execution.room.release()

    async def _load_rows(self, given: OwnRun, *, decides: bool) -> OwnExecution | None:
        async with database_deadline():
            async with self._database.connection() as connection:
                row = await own_runs.load(connection, given.run_id, given.claim_id, decides=decides)
            if row is None:
                return None
            version = await self._versions.load(row.of.automation_id, row.of.version)
            observation.observe_run(row.of, row.run, version)
            async with self._database.connection() as connection:
                found = await run_loading.load_records(connection, [given.run_id], version.read)

        async def perform(call: Call) -> CallResult:
            of = row.of
            return await self._performer.perform(of.account_id, of.automation_id, given.run_id, call, version)

        # The activities of the run execute its calls, each perhaps in another process.
        room = RunRoom(self._room, row.of.account_id, limits_calls=False)
        driver = create_driver(version, row.run, found.get(given.run_id, Recorded()), room)
        return OwnExecution(row, version, driver, room, self._writer, perform)

    async def _unless_it_fails(self, given: OwnRun, doing: Coroutine[Any, Any, _Next]) -> _Next | Todo:
        """Execute work on a run; set the run aside if our code fails, as under a shift."""
        try:
            return await doing
        except (*AWAY, ApplicationError):
            raise
        except DatabaseAway as error:
            raise ApplicationError(str(error), type="database_away") from error
        except UnstorableRecord as error:
            _log.error("run_not_stored", run_id=str(given.run_id), error=str(error))
            await self._record.fail(given, NOT_STORED)
            return Todo([], over="failed")
        except Exception as error:
            if self._failures.note_fault(error):
                raise
            _log.error("run_set_aside", run_id=str(given.run_id), exc_info=error)
            await self._record.set_aside(given)
            return _ELSEWHERE

    async def _go_on(self, execution: OwnExecution, under_way: list[CallName]) -> Todo:
        todo = await execution.advance(under_way)
        self._failures.note(execution.row.of.account_id, failed=False)
        if execution.version.trouble.may_stand:
            await execution.version.prove(self._database, execution.row.of)
        if todo.over == "elsewhere":
            await self._record.append(execution)
        return todo

    def _release_if_left(self, given: OwnRun, todo: Todo) -> Todo:
        if todo.over is not None or not todo.calls:
            self._on_left(given.run_id)
        return todo

    async def _take(
        self, given: OwnRun, execution: OwnExecution, call: Call, done: CallResult, *, alone: bool
    ) -> Todo | None:
        """Take the outcome of a call, and write it."""
        if done.room is not None:
            execution.rooms.append(done.room)
        execution.driver.take(call, done.outcome, clock.now())
        execution.unwritten += execution.driver.take_records()
        execution.performed = True
        if alone:
            kept = list(execution.unwritten)
            try:
                return self._release_if_left(given, await self._go_on(execution, []))
            except StaleProgress:
                # Whatever has changed the progress may have begun another call.
                execution.unwritten, alone = kept, False
        # The record first: without it, the progress states that the call must be executed.
        if execution.unwritten and not await execution.write():
            await self._record.append(execution)
        if (left := execution.progress_of(call)) is not None:
            await self._record.change_progress(
                execution, lambda stored: merge_progress(stored, call, left, is_done=True)
            )
        return await self._decide_next(given, []) if alone else None

    # ---- calls

    async def _perform(self, execution: OwnExecution, call: Call) -> CallResult:
        """Execute a call; write its progress if it takes a while."""
        self._check_lives()
        now = clock.now()
        execution.driver.start_attempt(call, now)
        task = asyncio.create_task(attempt(execution.perform, call, now))
        try:
            done, _ = await asyncio.wait([task], timeout=SHOWN_SECONDS)
            if not done and (mine := execution.progress_of(call)) is not None:
                await self._record.change_progress(
                    execution, lambda stored: merge_progress(stored, call, mine, is_done=False), went_on=False
                )
            return await task
        except LeaseLost as error:
            raise ApplicationError(str(error), type="no_beat") from error
        finally:
            task.cancel()

    def _check_lives(self) -> None:
        """Raise unless this process has had a beat recently, as under its shift."""
        held = self._executor.shift
        if held is None or not held.can_start_calls:
            raise ApplicationError("This worker has not reached the database lately.", type="no_beat")

    async def _perform_items(self, execution: OwnExecution, step_id: str, calls: list[Call]) -> None:
        """Execute calls of items of a step, with their further attempts, as many at a time as it allows.

        Further items are left to the next activity.
        """
        driver, left, stops = execution.driver, ITEMS_AT_ONCE, False
        # No other step begins before this one or one of these is done.
        has_others = len(driver.live_steps()) > 1
        tasks: dict[asyncio.Task[CallResult], Call] = {}
        try:
            while True:
                for call in calls:
                    left -= call.attempt == 1
                    if left >= 0 or call.attempt > 1:
                        tasks[asyncio.create_task(self._perform(execution, call))] = call
                if not tasks and not execution.pauses_briefly(step_id):
                    break
                failed = await self._items_happen(execution, tasks, step_id)
                # What has happened beside this step is decided by the workflow: the run may have failed.
                execution.unwritten = [one for one in execution.unwritten if one.step_id == step_id]
                if execution.unwritten and not await execution.write():
                    await self._record.append(execution)
                    return
                if failed and not await self._record.put_step(execution, step_id):
                    return
                calls = [one for one in driver.advance(clock.now()) if one.step.id == step_id]
                execution.unwritten += driver.take_records()
                if stops or (has_others and await self._is_failing(execution)):
                    # A step beside this one has failed the run: the items under way end, no other begins.
                    stops, calls = True, []
                    if not tasks:
                        break
        finally:
            for task in tasks:
                task.cancel()
        # The workflow waits for longer pauses.
        await self._record.put_step(execution, step_id)

    async def _is_failing(self, execution: OwnExecution) -> bool:
        run_id, steps = execution.row.run.run_id, execution.version.plan.steps
        async with self._database.connection() as connection:
            return await run_loading.is_failing(connection, run_id, steps)

    async def _items_happen(
        self, execution: OwnExecution, tasks: dict[asyncio.Task[CallResult], Call], step_id: str
    ) -> bool:
        """Wait for finished items, or for the next retry; return whether an item must be retried later."""
        now, driver, before = clock.now(), execution.driver, execution.driver.waits
        due = min((wait.until for wait in driver.waits if wait.step_id == step_id), default=None)
        seconds = None if due is None else max(0.0, (due - now).total_seconds())
        if not tasks:
            await asyncio.sleep(seconds or 0.0)
            return False
        finished, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in finished:
            call, done = tasks.pop(task), task.result()
            if done.room is not None:
                execution.rooms.append(done.room)
            driver.take(call, done.outcome, clock.now())
        execution.unwritten += driver.take_records()
        return not driver.waits <= before
