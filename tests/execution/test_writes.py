"""When an executor writes, when it begins calls, and when it lets go."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from engine.calls import AttemptResult, Call, JSONObject, failed_attempt
from engine.driver import Driver
from engine.plan import Plan
from engine.state import RunInput
from execution.run_execution import LONGEST_NAP, CallResult, Execution, ExecutionResult, RunClaim
from execution.shift import BEGIN_SECONDS, HeldShift, now
from language.definition import Definition
from models.identifiers import new_id
from models.runs.run_writes import Change, End, Wait
from tests.engine.world import START
from tests.execution.clocks import FastClock


def call(step_id: str, **fields: Any) -> JSONObject:
    return {"id": step_id, "type": "webhook", "config": {"url": "http://h/"}, **fields}


def transform(step_id: str, expression: str = "`1`") -> JSONObject:
    return {"id": step_id, "type": "transform", "config": {"expression": expression}}


def delay(step_id: str, seconds: float) -> JSONObject:
    return {"id": step_id, "type": "delay", "config": {"seconds": seconds}}


class ShortClock(FastClock):
    """Moves for short waits only."""

    async def sleep_until(self, moment: datetime) -> None:
        if moment - self.moment > LONGEST_NAP:
            await asyncio.Event().wait()
        await super().sleep_until(moment)


class Executor:
    """Runs one run; remembers what it called and wrote, in order."""

    def __init__(self, *steps: JSONObject, **outcomes: AttemptResult) -> None:
        plan = Plan(Definition.model_validate({"name": "test", "steps": list(steps)}))
        driver = Driver(
            plan, RunInput(new_id(), START, trigger={"large": "x" * 80_000}), {"id": "-", "name": "test"}
        )
        self.log: list[str] = []
        self.changes: list[Change] = []
        self.holds = True
        self.held = HeldShift(new_id())
        self.clock = ShortClock()
        self._outcomes = outcomes
        self.execution = Execution(
            self.held, RunClaim(new_id()), driver, self._perform, self._write, self.clock
        )

    async def _perform(self, call: Call) -> CallResult:
        self.log.append(f"call {call.step.id}")
        if call.step.id.startswith("hangs"):
            await asyncio.Event().wait()
        return CallResult(self._outcomes.get(call.step.id, AttemptResult(None, {"n": 1})))

    async def _write(self, change: Change) -> bool:
        self.changes.append(change)
        then = type(change.then).__name__ if change.then else "Steps"
        self.log.append(f"{then} {' '.join(record.step_id for record in change.records)}".strip())
        return self.holds

    async def run(self) -> ExecutionResult:
        async with asyncio.timeout(5):
            return await self.execution.run()


async def test_a_call_between_pure_steps_is_one_write() -> None:
    executor = Executor(transform("a"), call("b"), transform("c"))
    assert await executor.run() == "ended"
    assert executor.log == ["call b", "End a b c"]
    assert executor.changes[0].then == End("completed", output_of="c")


async def test_a_call_is_written_before_the_next_begins() -> None:
    executor = Executor(call("a"), transform("b"), call("c"))
    assert await executor.run() == "ended"
    assert executor.log == ["call a", "Steps a b", "call c", "End c"]


async def test_what_the_next_call_reads_and_is_large_is_written_first() -> None:
    executor = Executor(
        transform("a", "trigger.large"), call("b", config={"url": "http://h/", "body": "{{ a }}"})
    )
    assert await executor.run() == "ended"
    assert executor.log == ["Steps a", "call b", "End b"]


async def test_a_long_wait_is_written_and_left() -> None:
    executor = Executor(transform("a"), delay("b", 60))
    assert await executor.run() == "waits"
    assert executor.log == ["Wait a"]
    (wait,) = (change.then for change in executor.changes)
    assert isinstance(wait, Wait) and (wait.wake_at, wait.leaves) == (START + timedelta(seconds=60), True)


async def test_a_short_wait_is_written_and_waited_for() -> None:
    executor = Executor(delay("a", 1.5), call("b"))
    assert await executor.run() == "ended"
    # It is written again when it is over: whoever has cancelled the run meanwhile is heard before a call.
    assert executor.log == ["Wait", "Wait a", "call b", "End b"]
    naps = [change.then for change in executor.changes if isinstance(change.then, Wait)]
    assert [(nap.leaves, nap.wake_at is not None) for nap in naps] == [(False, True), (False, False)]


async def test_a_run_that_waits_beside_a_call_leaves_when_the_call_is_done() -> None:
    executor = Executor(delay("a", 600), call("b", needs=[]))
    assert await executor.run() == "waits"
    assert executor.log == ["Wait", "call b", "Wait b"]
    waits = [change.then for change in executor.changes]
    assert [isinstance(wait, Wait) and wait.leaves for wait in waits] == [False, True]


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_call_waits_for_a_beat_when_the_last_one_is_old(is_lost: bool) -> None:
    executor = Executor(transform("a"), call("b"))
    executor.held.beat_sent_at = now() - BEGIN_SECONDS
    task = asyncio.create_task(executor.run())
    for _ in range(100):
        await asyncio.sleep(0)
    assert executor.log == []
    executor.held.lost, executor.held.beat_sent_at = is_lost, now()
    assert await task == ("lost" if is_lost else "ended")
    assert executor.log == ([] if is_lost else ["call b", "End a b"])


async def test_a_run_that_is_not_ours_any_more_is_dropped() -> None:
    executor = Executor(call("a"), call("b"))
    executor.holds = False
    assert await executor.run() == "lost"
    assert executor.log == ["call a", "Steps a"]


async def test_who_stops_an_executor_stops_its_calls() -> None:
    before = asyncio.all_tasks()
    executor = Executor(call("hangs"))
    task = asyncio.create_task(executor.run())
    while not executor.log:
        await asyncio.sleep(0)
    task.cancel()
    assert (await asyncio.gather(task, return_exceptions=True))[0].__class__ is asyncio.CancelledError
    assert asyncio.all_tasks() <= before


async def test_a_step_that_takes_longer_than_its_timeout_fails() -> None:
    executor = Executor(call("hangs", timeout=0.05))
    assert await executor.run() == "ended"
    (end,) = (change.then for change in executor.changes)
    assert isinstance(end, End) and end.error is not None
    assert (end.status, end.error.code, end.error.step) == ("failed", "timeout", "hangs")


async def test_a_failed_call_fails_its_run() -> None:
    executor = Executor(call("a"), call("b"), a=failed_attempt("http_status", "404"))
    assert await executor.run() == "ended"
    assert executor.log == ["call a", "End a"]


async def test_what_was_under_way_at_a_cancel_is_told_again_to_who_was_interrupted_writing_it() -> None:
    executor = Executor(call("hangs"))
    running = asyncio.create_task(executor.run())
    while not executor.log:
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    first = executor.execution.give_up()
    assert [(record.step_id, record.status) for record in first] == [("hangs", "cancelled")]
    assert executor.execution.give_up() == first
