"""`AutomationBatch`: runs one definition over the rows of a batch, as a dataflow.

A step takes every row that is ready for it and issues one activity for them all. Rows share work where they
run together and part where they do not; there are no groups and no barriers. One coroutine owns the state:
whatever completes, and every signal, only appends to the inbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any
from uuid import UUID

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from language.records import LiveStep
    from workflows import policies
    from workflows.calls import Call, Command, End, Leave, Timer
    from workflows.interpreter import Interpreter
    from workflows.messages import (
        END_RUNS,
        PARK_RUNS,
        TAKE_EARLY_RESULTS,
        WAKE_RUNS,
        Batch,
        EarlyResults,
        Parking,
        StepCalls,
        StepResults,
    )


@workflow.defn
class AutomationBatch:
    """Runs of one workflow version, accepted together, done together."""

    @workflow.init
    def __init__(self, batch: Batch) -> None:
        self._inbox: list[Callable[[], None]] = []
        self._activities: dict[asyncio.Task[None], None] = {}
        self._timers: dict[asyncio.Task[None], None] = {}
        self._batch = batch
        self._interpreter: Interpreter | None = None

    @workflow.run
    async def run(self, batch: Batch) -> None:
        """Run every row to its end, or to a long delay."""
        if batch.definition is None:
            batch = await self._loaded(batch)
        self._interpreter = interpreter = Interpreter(batch, workflow.now)
        self._carry_out(interpreter.advance())
        while self._activities or self._inbox or (self._timers and not interpreter.ended):
            await self._take()
            if workflow.info().is_continue_as_new_suggested():
                await self._go_on_with_a_new_history(interpreter)
                return
            self._carry_out(interpreter.advance())

    @workflow.signal
    def cancel_runs(self, run_ids: list[UUID]) -> None:
        """End these runs now; their batch mates go on."""
        self._inbox.append(lambda: self._rows.cancel(run_ids))

    @workflow.signal(name=TAKE_EARLY_RESULTS)
    def take_early_results(self, early: EarlyResults) -> None:
        """Let rows go on whose call is done, while their activity still waits for others."""
        self._inbox.append(lambda: self._rows.take_early_results(early))

    @workflow.query
    def live_steps(self, run_id: UUID) -> list[LiveStep]:
        """The steps of a run that are under way."""
        return [] if self._interpreter is None else self._interpreter.live_steps(run_id)

    @property
    def _rows(self) -> Interpreter:
        assert self._interpreter is not None
        return self._interpreter

    async def _loaded(self, batch: Batch) -> Batch:
        loaded: Batch = await workflow.execute_activity(
            WAKE_RUNS,
            batch,
            result_type=Batch,
            summary="the runs and how far they are",
            start_to_close_timeout=policies.SHORT,
            schedule_to_close_timeout=policies.A_DAY,
            retry_policy=policies.LOST_WORKER,
        )
        return loaded.model_copy(update={"progress": batch.progress})

    async def _take(self) -> None:
        """Wait for something to come in, then take all that has."""
        await workflow.wait_condition(lambda: bool(self._inbox))
        inbox, self._inbox = self._inbox, []
        for take in inbox:
            take()

    async def _go_on_with_a_new_history(self, interpreter: Interpreter) -> None:
        """Begin nothing, let activities end and take what they bring, then start anew with what is left."""
        for timer in list(self._timers):
            timer.cancel()
        for commands in (interpreter.commands, interpreter.close):
            self._carry_out(commands(), with_timers=False)
            while self._activities or self._inbox:
                await self._take()
                self._carry_out(interpreter.commands(), with_timers=False)
        if progress := interpreter.progress():
            workflow.continue_as_new(self._ids().model_copy(update={"progress": progress}))

    def _ids(self) -> Batch:
        """The batch without what it is loaded with."""
        none: dict[str, Any] = {"definition": None, "rows": [], "progress": {}}
        return self._batch.model_copy(update=none)

    def _carry_out(self, commands: list[Command], *, with_timers: bool = True) -> None:
        for command in commands:
            match command:
                case Call():
                    self._start(self._call(command), self._activities)
                case Leave():
                    self._start(self._leave(command), self._activities)
                case End():
                    self._start(self._end(command), self._activities)
                case Timer():
                    # Without: what it is for is in the rows' progress, and begins it again.
                    if with_timers:
                        self._start(self._wait(command), self._timers)

    async def _call(self, call: Call) -> None:
        try:
            results: StepResults = await workflow.execute_activity(
                call.activity,
                call.calls,
                result_type=StepResults,
                start_to_close_timeout=policies.start_to_close(call.calls),
                schedule_to_close_timeout=policies.A_DAY,
                heartbeat_timeout=policies.HEARTBEAT,
                retry_policy=policies.LOST_WORKER,
                summary=_summary(call.calls),
            )
        except ActivityError:
            self._inbox.append(lambda: self._rows.give_up(call))
        else:
            self._inbox.append(lambda: self._rows.take_results(call, results.results))

    async def _wait(self, timer: Timer) -> None:
        await workflow.sleep(max(timedelta(), timer.until - workflow.now()), summary=timer.summary)
        self._inbox.append(timer.then)

    async def _leave(self, leave: Leave) -> None:
        stayed: list[UUID] = await workflow.execute_activity(
            PARK_RUNS,
            Parking(
                batch=self._ids(),
                next_id=workflow.uuid4(),
                wake_at=leave.wake_at,
                runs=leave.runs,
                records=leave.records,
            ),
            result_type=list[UUID],
            start_to_close_timeout=policies.SHORT,
            schedule_to_close_timeout=policies.A_DAY,
            retry_policy=policies.LOST_WORKER,
            summary=f"{len(leave.runs)} rows until {leave.wake_at.isoformat()}",
        )
        self._inbox.append(lambda: self._rows.take_back(stayed))

    async def _end(self, end: End) -> None:
        await workflow.execute_local_activity(
            END_RUNS,
            end.endings,
            start_to_close_timeout=policies.SHORT,
            schedule_to_close_timeout=policies.A_DAY,
            retry_policy=policies.LOST_WORKER,
            summary=f"the end of {len(end.endings.endings)} runs",
        )

    def _start(self, work: Coroutine[Any, Any, None], among: dict[asyncio.Task[None], None]) -> None:
        """Let `work` go on beside the main loop; its end wakes the loop, its exception fails the workflow."""

        def done(task: asyncio.Task[None]) -> None:
            del among[task]
            if not task.cancelled():
                self._inbox.append(task.result)

        task = asyncio.create_task(work)
        among[task] = None
        task.add_done_callback(done)


def _summary(calls: StepCalls) -> str:
    items = sum(len(call.items) for call in calls.calls)
    return f"{calls.step.id}: {len(calls.calls)} rows" + (f", {items} items" if items else "")
