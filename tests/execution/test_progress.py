"""The progress of a run under way is written for calls that take long, and only for these."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from engine.calls import AttemptResult, Call
from engine.driver import Driver
from engine.plan import Plan
from engine.state import RunInput
from execution import run_execution
from execution.run_execution import CallResult, Execution, RunClaim
from execution.shift import HeldShift, now
from language.definition import Definition
from models.identifiers import new_id
from models.runs.run_writes import Change, Wait
from outbound.memory import CALL_BYTES, MemoryBudget

_QUICK_SECONDS = 0.1
_QUICK_CALLS = 12
_RECORD = CallResult(AttemptResult({}, {"status": 200}))


@pytest.fixture(autouse=True)
def a_second_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Far more than a quick call takes, also on a busy machine, and less than all of them take."""
    monkeypatch.setattr(run_execution, "SHOWN_SECONDS", 1.0)


def run_of(*steps: dict[str, Any]) -> Driver:
    """A new run of these webhook steps."""
    config = {"url": "https://example.com/"}
    document = [{"type": "webhook", "config": config, **step} for step in steps]
    definition = Definition.model_validate(
        {"name": "calls", "trigger": {"type": "webhook"}, "steps": document}
    )
    return Driver(Plan(definition), RunInput(new_id(), datetime.now(UTC), trigger={}), {})


def held() -> HeldShift:
    shift = HeldShift(new_id())
    shift.beat_sent_at = now()
    return shift


async def test_many_quick_calls_write_no_progress() -> None:
    written: list[Change] = []

    async def perform(_call: Call) -> CallResult:
        await asyncio.sleep(_QUICK_SECONDS)
        return _RECORD

    async def write(change: Change) -> bool:
        written.append(change)
        return True

    driver = run_of(*({"id": f"call{number}"} for number in range(_QUICK_CALLS)))
    assert await Execution(held(), RunClaim(new_id()), driver, perform, write).run() == "ended"
    assert [change for change in written if isinstance(change.then, Wait)] == []


async def test_a_call_that_takes_long_is_shown_once_also_beside_quick_ones() -> None:
    is_shown, shown = asyncio.Event(), list[str]()

    async def perform(call: Call) -> CallResult:
        if call.step.id == "slow":
            await is_shown.wait()
        else:
            await asyncio.sleep(_QUICK_SECONDS)
        return _RECORD

    async def write(change: Change) -> bool:
        if isinstance(change.then, Wait):
            shown.append(change.then.progress)
            is_shown.set()
        return True

    needs = (list[str](), *([f"call{number}"] for number in range(_QUICK_CALLS - 1)))
    quick = ({"id": f"call{number}", "needs": need} for number, need in enumerate(needs))
    driver = run_of({"id": "slow", "needs": []}, *quick)
    assert await Execution(held(), RunClaim(new_id()), driver, perform, write).run() == "ended"
    assert len(shown) == 1 and '"slow"' in shown[0]


async def test_items_that_have_ended_do_not_hold_the_memory_that_their_siblings_wait_for() -> None:
    """Else neither would ever end, nor any other call of the process."""
    budget = MemoryBudget(4 * CALL_BYTES)

    async def perform(_call: Call) -> CallResult:
        room = budget.reservation()
        await room.grow(CALL_BYTES)
        await room.grow(3 * CALL_BYTES)
        return _RECORD._replace(room=room)

    async def write(change: Change) -> bool:
        return True

    driver = run_of({"id": "each", "for_each": "[`1`, `2`, `3`, `4`]"})
    async with asyncio.timeout(15):
        assert await Execution(held(), RunClaim(new_id()), driver, perform, write).run() == "ended"
    assert driver.ended is not None and driver.ended.status == "completed"
    assert budget.free == 4 * CALL_BYTES
