"""`AutomationRun`: one run of a user's workflow, visible in Temporal. Its results are read from Postgres.

`decide_next` decides from rows, so that this workflow depends neither on the definition nor on the language:
a release that changes these changes no history. The history contains ids, names of steps, kinds, codes and
times: no values and no addresses.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from workflows import policies
    from workflows.messages import (
        AUTOMATION_RUN,
        CANCEL_RUN,
        DECIDE_NEXT,
        LEFT,
        LOOK,
        NOT_ITS_RUN,
        PERFORM_STEP,
        TAKEN_UP,
        WAKE_RUN,
        CallName,
        OwnRun,
        Todo,
    )

_LEAST_SECONDS = 0.05
# A run that was queued again is claimed and signalled within this time, or has another carrier.
_CLAIMED_SECONDS = 60.0
# Any client of Temporal can complete an activity. A result beyond these bounds is none of ours: it would fail
# each task of the workflow, or exceed Temporal's limits for pending activities and their ids.
_MOST_CALLS, _LONGEST_LABEL, _MOST_SECONDS = 2_000, 500, 10 * 366 * 86_400.0
# While the database is away, the workflow waits instead of an activity, so that no slot is occupied.
_AGAIN_SECONDS = 2.0
# Where steps overlap there may always be a call under way. Temporal terminates a workflow at 51,200 events:
# from this number on no call begins until it can continue as new.
_MOST_EVENTS = 20_000


@workflow.defn(name=AUTOMATION_RUN)
class AutomationRun:
    """Executes one run until it has ended, or has another carrier."""

    @workflow.init
    def __init__(self, given: OwnRun) -> None:
        self._given = given
        # Claims that the run may have got since. The rows decide, because any client can send a signal.
        self._offered: list[OwnRun] = []
        self._told = False
        self._left = False
        self._todo = Todo([])
        self._steps: dict[str, str] = {}
        self._scheduled: Counter[str] = Counter()
        self._at_work: dict[asyncio.Task[tuple[OwnRun, Todo | None]], CallName] = {}

    @workflow.run
    async def run(self, given: OwnRun) -> str:
        """Execute the run; return its final status, or `by_shift` if a worker's shift took over."""
        try:
            over = await self._take_forward()
        except (asyncio.CancelledError, ActivityError) as error:
            if not is_cancelled_exception(error):
                raise
            # From Temporal's pages or its command line: the run is cancelled, as by the API.
            for task in self._at_work:
                task.cancel()
            await asyncio.shield(self._cancel())
            raise
        workflow.set_current_details(self.progress())
        return "by_shift" if over == "elsewhere" else over

    @workflow.signal(name=TAKEN_UP)
    def taken_up(self, given: OwnRun) -> None:
        """Continue under this claim: the run had waited, and its wait is over."""
        # Any client can send null, bytes or Protobuf, which are decoded without a look at the type.
        if not isinstance(given, OwnRun):  # pyright: ignore[reportUnnecessaryIsInstance]
            return
        if given.run_id == self._given.run_id and given != self._given:
            self._offered.append(given)

    @workflow.signal(name=LOOK)
    def look(self) -> None:
        """Check whether an answer has come that the run waits for."""
        self._told = True

    @workflow.signal(name=LEFT)
    def left(self) -> None:
        """Check whether the run has ended or has another carrier, and end then."""
        self._left = self._told = True

    @workflow.query
    def progress(self) -> str:
        """Return each step that is done, under way or waiting, a line each."""
        under_way = {call.label: "running" for call in self._at_work.values()}
        waits = {self._todo.waits: "waiting"} if self._todo.waits else {}
        lines = {**self._steps, **under_way, **waits}
        return "\n".join(f"- {name}: {status}" for name, status in lines.items())

    async def _take_forward(self) -> str:
        todo = await self._decide()
        while True:
            if todo.over == "elsewhere" and await self._is_claimed_again():
                todo = await self._decide()
                continue
            if todo.over is not None:
                return todo.over
            self._left = False
            if not self._at_work and not self._offered and workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(self._given)
            for call in () if self._must_end_calls() else todo.calls:
                # Where something waits, its end may begin another call beside this one.
                alone = len(todo.calls) == 1 and not self._at_work and todo.seconds is None
                self._at_work[asyncio.create_task(self._perform(call, alone))] = call
            todo = await self._next(todo)

    def _must_end_calls(self) -> bool:
        """Return whether calls under way must end before others begin: the history is too long."""
        too_long = workflow.info().get_current_history_length() > _MOST_EVENTS
        return too_long and bool(self._at_work) and workflow.patched("ends-calls-first")

    async def _next(self, todo: Todo) -> Todo:
        """Wait until something happens; return the next work."""
        if self._at_work:
            done = await self._something_happens(todo.seconds)
            return done if done is not None else await self._decide()
        if await self._sleep(max(_LEAST_SECONDS, todo.seconds or 0.0), todo.waits):
            return await self._decide()
        if todo.seconds is not None and todo.seconds > policies.LONGEST_NAP_SECONDS:
            # The run is queued, and claimed like any other; the worker that claims it sends a signal.
            await self._do_locally(WAKE_RUN, [self._given])
            return Todo([], over="elsewhere")
        return await self._decide()

    async def _is_claimed_again(self) -> bool:
        """Wait for the signal of the next claim; return False without one, or if others have the run."""
        for task in self._at_work:
            task.cancel()
        await asyncio.gather(*self._at_work, return_exceptions=True)
        self._at_work.clear()
        if self._offered:
            return True
        return not self._left and await self._sleep(_CLAIMED_SECONDS, "until a worker claims the run")

    async def _something_happens(self, seconds: float | None) -> Todo | None:
        """Wait for a finished call, a time, or a signal; return the next work, if the call returned it."""
        timer = asyncio.create_task(self._sleep(seconds, self._todo.waits))
        await workflow.wait([*self._at_work, timer], return_when=asyncio.FIRST_COMPLETED)
        timer.cancel()
        follows: Todo | None = None
        for task in [task for task in self._at_work if task.done()]:
            del self._at_work[task]
            # A result under an old claim does not apply to the next claim, which may have come meanwhile.
            given, told = task.result()
            follows = told if given == self._given else None
        if follows is None or (self._at_work and workflow.patched("decides-beside-others")):
            # What follows was decided before the calls that are under way began; it may name them again.
            return None
        return self._take(follows)

    async def _sleep(self, seconds: float | None, what: str) -> bool:
        """Sleep at most this long; return whether a signal came first."""
        workflow.set_current_details(self.progress())
        try:
            await workflow.wait_condition(
                lambda: self._told or bool(self._offered),
                timeout=None if seconds is None else timedelta(seconds=max(_LEAST_SECONDS, seconds)),
                timeout_summary=what or None,
            )
        except TimeoutError:
            return False
        self._told = False
        return True

    async def _decide(self) -> Todo:
        while self._offered:
            offered = self._offered.pop()
            todo = await self._ask(offered)
            if todo.over != "elsewhere":
                self._given = offered
                return self._take(todo)
        return self._take(await self._ask(self._given))

    async def _ask(self, given: OwnRun) -> Todo:
        return await self._do_locally(DECIDE_NEXT, [given, list(self._at_work.values())], Todo)

    async def _do_locally(self, name: str, args: list[Any], result_type: type[Any] | None = None) -> Any:
        """Execute a local activity until it succeeds; between its attempts it occupies no slot."""
        while True:
            try:
                return await workflow.execute_local_activity(
                    name,
                    args=args,
                    result_type=result_type,
                    start_to_close_timeout=policies.DECIDE,
                    retry_policy=policies.ONCE,
                )
            except (ActivityError, ApplicationError) as error:
                # A local activity raises its own error.
                if is_cancelled_exception(error) or getattr(error, "type", None) == NOT_ITS_RUN:
                    raise
                await asyncio.sleep(_AGAIN_SECONDS)

    def _take(self, todo: Todo) -> Todo:
        self._steps = todo.steps if todo.steps is not None else self._steps
        self._todo = todo
        return todo

    async def _perform(self, call: CallName, alone: bool) -> tuple[OwnRun, Todo | None]:
        given = self._given
        # An interrupted call of the same name stays open until its worker notices.
        self._scheduled[call.label] += 1
        times = self._scheduled[call.label]
        told = await workflow.execute_activity(
            PERFORM_STEP,
            args=[given, call, alone],
            result_type=RawValue,
            start_to_close_timeout=policies.A_DAY,
            heartbeat_timeout=policies.HEARTBEAT,
            retry_policy=policies.FOR_EVER,
            activity_id=call.label if times == 1 else f"{call.label}, {times}",
            summary=call.label,
        )
        # Any client of Temporal can complete the activity with any result: then the rows decide.
        try:
            todo: object = workflow.payload_converter().from_payload(told.payload, Todo)
        except Exception:  # Protobuf's converters raise RuntimeError and DecodeError
            todo = None
        return given, todo if isinstance(todo, Todo) and _is_possible(todo) else None

    async def _cancel(self) -> None:
        named = workflow.ActivityConfig(summary="cancel the run")
        await workflow.execute_activity(CANCEL_RUN, self._given, **(policies.QUICK | named))


def _is_possible(todo: Todo) -> bool:
    return (
        (todo.seconds is None or 0 <= todo.seconds <= _MOST_SECONDS)
        and len(todo.calls) <= _MOST_CALLS
        and all(len(call.label) <= _LONGEST_LABEL for call in todo.calls)
    )
