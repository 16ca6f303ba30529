"""Checks of events: what takes more than a moment is done beside the API, to the same end and in turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import TypeAdapter

from language.expressions.values import MAX_NODES
from language.triggers import Trigger
from models.automations.run_targets import RunTarget, TriggerSpec
from models.errors import Invalid
from models.gates import NONE
from models.inputs.inputs import MAX_CHECKS, InputSchema
from models.priorities import BULK
from services import event_checks
from services.event_checks import ChecksWaiting, EventChecks
from services.process_pool import ProcessPool
from tests.services.work import wait_for
from tests.stacks import eventually

PAIRS = "length(map(&length(map(&to_string(@), $.trigger)), trigger))"
NUMBERS = list(range(100))
MANY: list[Any] = list(range(1000))


def target(
    dedupe: str | None = None, schema: dict[str, Any] | None = None, account: UUID | None = None
) -> RunTarget:
    trigger: Trigger = TypeAdapter[Trigger](Trigger).validate_python({"type": "webhook", "dedupe": dedupe})
    return RunTarget(
        automation_id=uuid4(),
        account_id=account or uuid4(),
        status="active",
        version=1,
        priority=BULK,
        gate=NONE,
        own=False,
        spec=TriggerSpec(trigger, False, schema and InputSchema(schema)),
    )


async def free(requests: int) -> None:
    """A charge that nobody pays."""


@pytest.fixture(scope="module")
async def pool() -> AsyncGenerator[ProcessPool]:
    pool = ProcessPool()
    yield pool
    await pool.close()


def deep(levels: int) -> list[Any]:
    return [deep(levels - 1)] if levels else []


DEDUPES: dict[str, tuple[str, Any]] = {
    "a value": ("trigger.id", {"id": {"b": 1, "a": [2.5, "x"]}}),
    "no value": ("trigger.id", {}),
    "the request": ("request.headers.id", {}),
    "text beyond the basic plane": ("trigger", "😀\u2028"),
    "much work": (PAIRS, NUMBERS),
    "too much work": (PAIRS, MANY),
    "another type": ("sum(trigger)", ["x"]),
    "too large": ("map(&$.trigger, trigger)", ["x" * 1000] * 100),
}
INPUTS: dict[str, tuple[dict[str, Any], Any]] = {
    "what fits": ({"type": "object", "required": ["a"]}, {"a": 1}),
    "fields that are missing": ({"required": ["a", "b"]}, {}),
    "many that fit": ({"items": {"type": "integer"}}, MANY * 5),
    "many that do not": ({"items": {"type": "string"}}, MANY),
    "one among many": ({"items": {"type": "integer"}}, [*MANY, "x"]),
    "large, and of another type": ({"type": "object"}, ["x" * 1000] * 500),
    "deep": ({"items": {"$ref": "#"}}, deep(95)),
    "deep, by way of others": ({"items": {"allOf": [{"anyOf": [{"$ref": "#"}]}]}}, deep(95)),
    "too much": ({"items": {"allOf": [{"minimum": 0}] * 500}}, MANY),
}


async def outcome(checks: EventChecks, asked: RunTarget, payload: Any) -> tuple[object, list[int]]:
    """Return what comes of an event, and what is charged for it."""
    charges: list[int] = []

    async def charge(requests: int) -> None:
        charges.append(requests)

    try:
        value = await checks.dedupe_value(asked, payload, {"headers": {"id": "7"}}, charge)
        await checks.check_input(asked, payload, "/input", charge)
    except Invalid as invalid:
        return invalid.errors, charges
    return value, charges


@pytest.mark.parametrize("case", [*DEDUPES, *INPUTS])
async def test_the_outcome_is_the_same_here_and_in_the_pool(
    pool: ProcessPool, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    if case in DEDUPES:
        expression, payload = DEDUPES[case]
        asked = target(dedupe=expression)
    else:
        schema, payload = INPUTS[case]
        asked = target(schema=schema)
    found: list[object] = []
    for nodes, steps in ((MAX_NODES, MAX_CHECKS), (0, 0)):
        monkeypatch.setattr(event_checks, "INLINE_NODES", nodes)
        monkeypatch.setattr(event_checks, "INLINE_CHECKS", steps)
        come, charges = await outcome(EventChecks(pool), asked, payload)
        found.append(come)
    assert found[0] == found[1]
    assert charges  # so the second was done in the pool


async def test_what_takes_little_needs_no_process_and_costs_nothing_more() -> None:
    pool, (expression, payload) = ProcessPool(), DEDUPES["a value"]
    asked = target(expression, {"type": "object", "required": ["id"]})
    assert await outcome(EventChecks(pool), asked, payload) == ('{"a":[2.5,"x"],"b":1}', [])
    assert pool.pids == []


@asynccontextmanager
async def held(pool: ProcessPool, owner: object, file: Path) -> AsyncGenerator[None]:
    """Keep a process of the pool busy within the block, for this owner."""
    work = asyncio.ensure_future(pool.run(owner, None, wait_for, file))
    await eventually(file.with_suffix(".begun").exists)
    yield
    file.touch()
    await work


async def test_accounts_take_turns_and_the_events_of_one_go_in_their_order(
    pool: ProcessPool, tmp_path: Path
) -> None:
    checks, done = EventChecks(pool), list[str]()
    accounts = {name: uuid4() for name in "abc"}

    async def send(name: str) -> None:
        await checks.dedupe_value(target(PAIRS, account=accounts[name[0]]), NUMBERS, {}, free)
        done.append(name)

    async with held(pool, "one", tmp_path / "one"), asyncio.TaskGroup() as group:
        async with held(pool, "other", tmp_path / "other"):
            for name in ("a1", "a2", "a3", "a4", "b1", "b2", "c1"):
                group.create_task(send(name))
                await asyncio.sleep(0)
    assert done == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]


async def test_so_many_events_of_an_account_may_wait_and_all_of_them_are_answered(
    pool: ProcessPool, tmp_path: Path
) -> None:
    checks, account = EventChecks(pool), uuid4()

    def send(to: UUID) -> asyncio.Task[str | None]:
        return asyncio.create_task(checks.dedupe_value(target(PAIRS, account=to), NUMBERS, {}, free))

    async with held(pool, ("events", account), tmp_path / "held"):
        waiting = [send(account) for _ in range(16)]
        await asyncio.sleep(0)
        with pytest.raises(ChecksWaiting):
            await send(account)
        assert await send(uuid4()) == "100"
    assert await asyncio.gather(*waiting) == ["100"] * 16
    assert await send(account) == "100"
