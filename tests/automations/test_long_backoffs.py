"""Backoffs of more than two seconds: the run leaves its executor, and holds no place meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from database import Database
from language.delays import write_time
from models.automations.run_targets import RunTarget
from models.runs import runs
from models.runs.run_views import RunView, StepAttemptView, StepView
from models.runs.runs import QUEUED_CHANNEL
from notifications import Notifier
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    accept,
    ended,
    statuses,
    transform,
    until,
    waiting,
    webhook,
)


def busy_at_first(seconds: int) -> Any:
    """Answers 503 to the first request of each call and item, asking for a pause."""
    seen: set[str] = set()

    def answer(request: dict[str, Any]) -> web.Response:
        if (call := request["headers"]["webhook-id"]) in seen:
            return web.json_response({"ok": True})
        seen.add(call)
        return web.json_response({}, status=503, headers={"Retry-After": str(seconds)})

    return answer


async def parked(database: Database, notifier: Notifier, target: RunTarget) -> RunView:
    [run_id] = await accept(database, target)
    notifier.notify(QUEUED_CHANNEL)
    return await waiting(database, target.account_id, run_id)


def test_a_log_of_an_earlier_release_has_the_ends_of_attempts_alone() -> None:
    at = datetime(2026, 11, 22, tzinfo=UTC)
    read = StepAttemptView.model_validate({"attempt": 1, "at": at, "error": {"code": "timeout"}})
    assert (read.started_at, read.ended_at, read.next_attempt_at) == (None, at, None)


@pytest.mark.executions("shift", "workflow")
async def test_a_run_whose_step_backs_off_for_long_waits_outside(
    database: Database, notifier: Notifier, new_target: NewTarget, receiver: Endpoint
) -> None:
    receiver.answer = busy_at_first(600)
    view = await parked(database, notifier, await new_target([webhook(receiver.url)]))
    [step] = view.steps
    assert (step.status, step.attempts) == ("waiting", 1)
    assert step.output["until"].endswith("Z")
    [first] = step.attempt_log
    assert step.attempt_started_at is None and step.started_at is not None
    assert first.started_at is not None and first.next_attempt_at is not None
    assert step.started_at <= first.started_at <= first.ended_at < first.next_attempt_at
    assert write_time(first.next_attempt_at) == step.output["until"]


@pytest.mark.executions("shift", "workflow")
async def test_an_attempt_under_way_shows_when_it_began(
    database: Database, notifier: Notifier, new_target: NewTarget, receiver: Endpoint
) -> None:
    seen, go_on = list[str](), asyncio.Event()

    async def handle(request: web.Request) -> web.Response:
        seen.append(request.path)
        if len(seen) == 1:
            return web.json_response({}, status=503, headers={"Retry-After": "1"})
        await go_on.wait()
        return web.json_response({})

    receiver.handler = handle
    target = await new_target([webhook(receiver.url)])
    [run_id] = await accept(database, target)
    notifier.notify(QUEUED_CHANNEL)

    async def second() -> StepView | None:
        async with database.connection() as connection:
            [step] = (await runs.get(connection, target.account_id, run_id)).steps
        return step if step.status == "running" and step.attempts == 2 else None

    step = await until(second)
    go_on.set()
    assert step.attempt_started_at is not None
    [first] = step.attempt_log
    assert first.next_attempt_at is not None and first.next_attempt_at <= step.attempt_started_at
    [done] = (await ended(database, notifier, target.account_id, run_id)).steps
    assert done.attempt_started_at == step.attempt_started_at and done.attempt_log == step.attempt_log


@pytest.mark.parametrize("for_each", [{}, {"for_each": "[1, 2, 3]"}], ids=["a step", "items"])
async def test_it_goes_on_with_the_next_attempt(
    database: Database,
    notifier: Notifier,
    new_target: NewTarget,
    receiver: Endpoint,
    for_each: dict[str, Any],
) -> None:
    receiver.answer = busy_at_first(4)
    target = await new_target([{**webhook(receiver.url), **for_each}, transform("end", "'end'")])
    view = await parked(database, notifier, target)
    view = await ended(database, notifier, target.account_id, view.id)
    assert statuses(view) == {"call": "completed", "end": "completed"}
    assert view.steps[0].attempts == 2
    calls = [request["headers"]["webhook-id"] for request in receiver.requests]
    assert sorted(calls) == sorted([*set(calls)] * 2), json.dumps(calls)


@pytest.mark.executions("shift", "workflow")
@pytest.mark.parametrize("items", [2, 25])
async def test_the_attempts_of_an_item_count_though_its_worker_is_lost_beside_another(
    database: Database, notifier: Notifier, new_target: NewTarget, receiver: Endpoint, items: int
) -> None:
    """However many items there are, and whether they are seen each in the workflow, or together."""

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/0":
            await receiver.open.wait()
        return web.json_response({}, status=503 if request.path == "/1" else 200)

    receiver.handler = answer
    retry = {"max_attempts": 3, "initial_seconds": 1.5, "backoff": 1}
    call = webhook(receiver.url + "/{{ item }}", "each", timeout=60) | {"for_each": "trigger", "retry": retry}
    target = await new_target([call | {"on_error": "continue"}, transform("end", "'end'")])
    [run_id] = await accept(database, target, 1, list(range(items)))

    async def has_failed_once() -> bool:
        async with database.connection() as connection:
            cursor = await connection.execute(
                "select progress #>> '{steps,each,items,1,attempts}' = '1' as is_told from run_work"
                " where run_id = %s",
                (run_id,),
            )
            row = await cursor.fetchone()
        return bool(row and row["is_told"])

    notifier.notify(QUEUED_CHANNEL)
    await until(has_failed_once)
    async with database.connection() as connection:
        await connection.execute(
            "update run_work set status = 'queued', carrier = null, claim_id = null where run_id = %s",
            (run_id,),
        )
    notifier.notify(QUEUED_CHANNEL)
    receiver.open.set()
    view = await ended(database, notifier, target.account_id, run_id)
    assert (view.status, view.output) == ("completed", "end")
    # Who has lost the run may not know it yet as it tries once more.
    assert Counter(receiver.paths)["/1"] in (3, 4)
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select attempts from run_step_items where run_id = %s and item = 1", (run_id,)
        )
        assert await cursor.fetchone() == {"attempts": 3}
