"""Runs with workflows of their own in trouble: activities done twice, lost replies, resets, suspects.

What can come between a run and its end beside the points of test_dispatch_points, and where it is tested:

| What | Test |
| --- | --- |
| two copies of an activity | `test_two_copies_of_each_activity_…` |
| a hand-over that nobody takes up | test_own_places: `test_a_hand_over_that_nothing_takes_up_…` |
| a workflow that was overtaken | test_claimed_again; test_either_carrier |
| a cancel by the API, at work or parked | test_cancelling; test_own_workflows: `…_of_a_waiting_…` |
| terminated; after a reset | test_own_workflows: `…_was_terminated_…`; `…_then_terminated_…` |
| Temporal away before a start | test_temporal_away_at_start; test_own_places: `…_temporal_is_away` |
| during one | `test_a_start_whose_reply_is_lost_…` |
| after one | test_crash_points: `…_temporal_is_silent_…`, `…_temporal_has_been_restarted` |
| woken while it runs | test_approvals: `…_reaches_a_run_that_is_busy_…`; tests/claims/test_wakes |
| our own code fails with a run, a version | test_bad_rows: `…_our_code_fails_…`; test_halting |
| claimed twice by one shift, as Postgres crashed | test_dispatch_points: `…_a_restore_has_taken_…` |
| lost again and again, with progress and without | tests/claims/test_claiming: `…_was_lost_…` |
| the last end at a gate, as a claim looks at it | tests/claims/test_gates: `…_the_last_end_…` |
| more gates than a claim looks at | tests/claims/test_gates: `…_more_limits_than_a_claim_looks_at_…` |
| suspects that cost worker after worker | tests/claims/test_quarantine; test_builds |
| low-water marks | tests/claims/test_claiming: `…_mark_…`; test_crash_points: `…_late_…` |
| workers that are halted, or dead, are not woken | tests/claims/test_wakes |
| locks of families | tests/claims/test_descendants, test_busy_rows |
| kept counts of runs that wait | tests/runs/test_run_counts |
| another clock after a promotion | `…_promoted_whose_clock_is_another` |
| nobody waits for ever | tests/claims/test_starvation |
"""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from temporalio.client import Client
from temporalio.worker import ExecuteActivityInput

from activities import own_runs as own_activities
from database import Database
from execution import heartbeat, own_execution
from execution.own_execution import OwnExecution
from models.runs import resumption
from models.runs.runs import QUEUED_CHANNEL
from sealing import Keyring
from settings import Settings
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    Work,
    accept,
    ended,
    events_of,
    requested,
    run_workflow,
    transform,
    until,
    webhook,
    working,
)
from tests.automations.faults import Do, without_replies
from tests.automations.own_runs import Handle, approval, delay, is_cancelled, performers, reset, timers
from workflows import policies

EXECUTION = "workflow"
pytestmark = pytest.mark.usefixtures("quick_watch")


def ids_of(receiver: Endpoint) -> Counter[str]:
    """Return how often each `webhook-id` came."""
    return Counter(request["headers"]["webhook-id"] for request in receiver.requests)


async def test_two_copies_of_each_activity_come_to_what_one_does(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    """As when a worker that was thought dead goes on beside the one that has its activity since."""
    activities: list[str] = []

    async def twice(given: ExecuteActivityInput, do: Do) -> Any:
        activities.append(given.fn.__name__)
        first, second = await asyncio.gather(do(), do(), return_exceptions=True)
        for one in (first, second):
            if isinstance(one, BaseException):
                raise one
        return second

    side_by_side: list[dict[str, Any]] = [
        webhook(f"{receiver.url}/{name}", name) | {"needs": []} for name in "abc"
    ]
    each = {
        **webhook(receiver.url + "/{{ item }}", "each"),
        "for_each": "[1, 2, 3]",
        "needs": ["a", "b", "c"],
    }
    many = {**webhook(receiver.url + "/{{ item }}", "many"), "for_each": "trigger"}
    end = transform("end", "[length(each), length(many)]")
    target = await new_target([*side_by_side, each, delay(0.3), many, end])
    [run_id] = await accept(database, target, 1, list(range(10, 40)))
    async with at_work(twice) as notifier:
        view = await ended(database, notifier, target.account_id, run_id, 60)
    assert (view.status, view.output) == ("completed", [3, 30])
    assert {step.attempts for step in view.steps} <= {1, None}
    assert set(activities) >= {"perform_step"}
    times = ids_of(receiver)
    assert len(times) == 36 and max(times.values()) <= 2


@pytest.mark.parametrize("held", ["find", "write"])
async def test_an_activity_that_waits_before_its_call_or_after_it_is_not_thought_lost(
    at_work: Work, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch, held: str,
) -> None:  # fmt: skip
    """As for a place in the process pool, or for a database that takes no writes."""
    silence = timedelta(seconds=1)
    monkeypatch.setattr(policies, "HEARTBEAT", silence)
    monkeypatch.setattr(heartbeat, "_SECONDS", 0.2)
    do = getattr(OwnExecution, held)

    async def outlasts(handle: Handle) -> bool:
        [pending] = (await handle.describe()).raw_description.pending_activities
        last = pending.last_heartbeat_time.ToDatetime() - pending.last_started_time.ToDatetime()
        return pending.attempt > 1 or last > 2 * silence

    async def wait_and_do(execution: OwnExecution, *args: Any, **named: Any) -> Any:
        monkeypatch.setattr(OwnExecution, held, do)
        handle = await run_workflow(client, execution.row.run.run_id)
        await until(lambda: outlasts(handle))
        return await do(execution, *args, **named)

    monkeypatch.setattr(OwnExecution, held, wait_and_do)
    target = await new_target([webhook(receiver.url), transform("end", "'done'")])
    [run_id] = await accept(database, target)
    async with at_work() as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
        handle = await run_workflow(client, run_id)
        await handle.result()
        started = await events_of(handle, "activity_task_started")
    assert (view.status, view.output) == ("completed", "done")
    assert [one.activity_task_started_event_attributes.attempt for one in started] == [1]
    assert len(receiver.requests) == 1


async def test_a_call_that_a_wake_begins_first_is_made_once(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    """The end of the call before it names it too, and Temporal hears of that end only afterwards."""

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/first":
            async with database.transaction() as connection:
                await resumption.resume(connection, run_id, "approval", {})
        else:
            # Until whatever follows from the end of the first has had its time.
            await asyncio.sleep(1)
        return web.json_response({})

    async def late(given: ExecuteActivityInput, do: Do) -> Any:
        result = await do()
        if given.fn.__name__ == "perform_step" and receiver.paths == ["/first"]:
            await requested(receiver, 2)
        return result

    receiver.handler = answer
    steps = [
        webhook(f"{receiver.url}/first", "first"),
        approval(),
        webhook(f"{receiver.url}/second", "second"),
    ]
    target = await new_target(steps)
    [run_id] = await accept(database, target)
    async with at_work(late) as notifier:
        assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
    assert receiver.paths == ["/first", "/second"]


async def test_a_start_whose_reply_is_lost_has_its_run_done_once(
    open_settings: Settings, client: Client, database: Database, keyring: Keyring, new_target: NewTarget,
    receiver: Endpoint,
) -> None:  # fmt: skip
    """The workflow has begun, or finds that its claim is over: another carrier has the run then."""
    steps = [webhook(receiver.url), transform("end", "call.status")]
    target = await new_target(steps, execution="auto")
    run_ids = await accept(database, target, 6)
    settings = open_settings.model_copy(update={"execution": "auto"})
    async with working(settings, without_replies(client), database, keyring) as notifier:
        views = [await ended(database, notifier, target.account_id, run_id) for run_id in run_ids]
        for run_id in run_ids:
            handle = await run_workflow(client, run_id)
            assert await handle.result() in ("completed", "by_shift")
    assert {(view.status, view.output) for view in views} == {("completed", 200)}
    assert set(ids_of(receiver).values()) == {1} and len(receiver.requests) == 6


async def test_a_run_whose_workflow_was_reset_and_then_terminated_is_cancelled(
    at_work: Work, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    target = await new_target(
        [
            webhook(receiver.url, "before"),
            webhook(f"{receiver.url}/held", "it"),
            transform("after", "'never'"),
        ]
    )
    [run_id] = await accept(database, target)
    async with at_work() as notifier:
        notifier.notify(QUEUED_CHANNEL)
        await requested(receiver, 2)
        handle = await run_workflow(client, run_id)
        [first, *_] = await events_of(handle, "workflow_task_completed")
        await reset(client, handle, first.event_id)
        await requested(receiver, 3)
        await client.get_workflow_handle(handle.id).terminate()
        await is_cancelled(database, notifier, target, run_id)


async def test_a_run_that_is_to_go_alone_goes_by_the_shift_that_is_free_for_it(
    at_work: Work, database: Database, new_target: NewTarget
) -> None:
    """In a workflow its calls would be made beside others, by any worker."""
    target = await new_target([transform("end", "'done'")])
    [run_id] = await accept(database, target)
    async with database.connection() as connection:
        await connection.execute(
            "update run_work set lost = 2, priority = priority + 10, own = false where run_id = %s", (run_id,)
        )
    async with at_work() as notifier:
        assert (await ended(database, notifier, target.account_id, run_id)).output == "done"
    assert await performers(database, run_id) == {"end": "shift"}


@pytest.mark.long
async def test_runs_that_go_alone_take_turns_with_all_others(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    """Else very many of them, and they come together, would stop all others for as long as they take."""
    suspect = await new_target([webhook(f"{receiver.url}/slow")], execution="shift")
    other = await new_target([webhook(f"{receiver.url}/other")], execution="shift")
    run_ids = await accept(database, suspect, 4)
    async with database.connection() as connection:
        await connection.execute("update run_work set lost = 2, priority = priority + 10")
    async with at_work() as notifier:
        await requested(receiver, 1)
        run_ids += await accept(database, other)
        notifier.notify(QUEUED_CHANNEL)
        for target, run_id in zip([suspect] * 4 + [other], run_ids, strict=True):
            assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
    assert receiver.paths == ["/slow", "/other", "/slow", "/slow", "/slow"]


CLOCKS = {"a minute behind": "- interval '1 minute'", "a minute ahead": "+ interval '1 minute'"}


@pytest.mark.parametrize("clock", CLOCKS)
async def test_runs_go_on_when_another_server_is_promoted_whose_clock_is_another(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint, clock: str
) -> None:
    """Who lives is told by counters, whose a run is by its claim: neither by times."""
    target = await new_target([webhook(f"{receiver.url}/held"), webhook(f"{receiver.url}/next", "next")])
    by_shift = await new_target([webhook(f"{receiver.url}/held")], execution="shift")
    async with at_work() as notifier:
        runs = [(one, (await accept(database, one))[0]) for one in (target, by_shift)]
        notifier.notify(QUEUED_CHANNEL)
        await requested(receiver, 2)
        await until(lambda: is_taken_up(database, runs[0][1]))
        async with database.connection() as connection:
            # As they look to a clock that is the other way off.
            await connection.execute(f"update shifts set beat_at = beat_at {CLOCKS[clock]}")
            await connection.execute(f"update workers set seen_at = seen_at {CLOCKS[clock]}")
            await connection.execute(
                f"update run_work set available_at = available_at {CLOCKS[clock]},"
                f" started_at = started_at {CLOCKS[clock]}"
            )
        new = await new_target([transform("end", "'done'")], execution="shift")
        [run_id] = await accept(database, new)
        assert (await ended(database, notifier, new.account_id, run_id)).output == "done"
        receiver.open.set()
        for one, run_id in runs:
            assert (await ended(database, notifier, one.account_id, run_id)).status == "completed"
    assert sorted(receiver.paths) == ["/held", "/held", "/next"]


async def is_taken_up(database: Database, run_id: UUID) -> bool:
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select from run_work where run_id = %s and handed_at is null and status = 'running'", (run_id,)
        )
        return bool(cursor.rowcount)


@pytest.mark.long
@pytest.mark.parametrize("seconds", [0.5, 3])
async def test_a_database_that_does_not_answer_holds_no_workflow_task(
    at_work: Work,
    client: Client,
    database: Database,
    new_target: NewTarget,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
) -> None:
    """The workflow waits for it by timers of its own, and its worker does other things."""
    monkeypatch.setattr(own_execution, "_DATABASE_SECONDS", 0.3)
    target = await new_target([delay(seconds), transform("end", "'done'")])
    [run_id] = await accept(database, target)
    async with at_work() as notifier:
        notifier.notify(QUEUED_CHANNEL)
        handle = await run_workflow(client, run_id)
        await until(lambda: timers(handle))
        async with database.transaction() as connection:
            await connection.execute("lock table run_work in access exclusive mode")
            await until(lambda: has_paused_twice(handle))
        assert (await ended(database, notifier, target.account_id, run_id)).output == "done"


async def has_paused_twice(handle: Handle) -> bool:
    first, *pauses = await timers(handle)
    assert first.startswith("wait"), first
    return len(pauses) > 1


@pytest.mark.long
async def test_a_run_that_goes_alone_breaks_off_its_other_calls_first(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Else a shift of the same worker would make them beside the activities that make them still."""
    under_way, most = Counter[str](), Counter[str]()

    async def answer(request: web.Request) -> web.Response:
        under_way[request.path] += 1
        most[request.path] = max(most[request.path], under_way[request.path])
        try:
            await asyncio.sleep(4 if request.path == "/long" else 0)
        finally:
            under_way[request.path] -= 1
        return web.json_response({})

    receiver.handler = answer
    steps = [
        {**webhook(f"{receiver.url}/long", "long"), "needs": []},
        {**delay(1, "nap"), "needs": []},
        {**webhook(f"{receiver.url}/other", "other"), "needs": ["nap"]},
    ]
    target = await new_target(steps)
    async with at_work() as notifier:
        [run_id] = await accept(database, target)
        notifier.notify(QUEUED_CHANNEL)
        await requested(receiver, 1)
        # As if the call that follows had cost two workers.
        monkeypatch.setattr(own_activities, "_MOST_LOST", 0)
        view = await ended(database, notifier, target.account_id, run_id, 60)
    assert (view.status, most["/long"]) == ("completed", 1)
