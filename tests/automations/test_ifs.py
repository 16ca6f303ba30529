"""`if`, what workflows remember, how many run at a time, and what the inputs of steps show."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from database import Database
from models.runs import acceptance
from models.runs.acceptance import RunRequest
from notifications import Notifier
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    Run,
    accept,
    ended,
    requested,
    statuses,
    transform,
    waiting,
    webhook,
)

LARGE = {"large": "x" * 70_000, "n": 1}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [("trigger.n == 1", "completed"), ("trigger.n > 1", "skipped"), ("trigger.none", "skipped"),
     ("max(trigger)", "failed")],
)  # fmt: skip
@pytest.mark.parametrize("payload", [{"n": 1}, LARGE], ids=["small", "stored"])
async def test_a_step_is_skipped_where_its_if_is_false(
    run: Run, condition: str, expected: str, payload: Any
) -> None:
    view = await run([{**transform("one", "'done'"), "if": condition}, transform("two", "one")], payload)
    assert view.steps[0].status == expected
    if expected != "failed":
        assert view.output == ("done" if expected == "completed" else None)
    else:
        assert view.error is not None and view.error["code"] == "wrong_type"


async def test_an_if_goes_for_a_step_of_any_type_and_before_its_items(run: Run, receiver: Endpoint) -> None:
    steps = [
        {**webhook(receiver.url), "id": "call", "for_each": "max(trigger)", "if": "trigger.call"},
        {"id": "later", "type": "delay", "config": {"seconds": 60}, "if": "call"},
        {"id": "check", "type": "condition", "config": {"expression": "false"}, "if": "later"},
        {"id": "wait", "type": "wait", "if": "later", "config": {}},
        transform("end", "'reached'"),
    ]
    view = await run(steps, {"n": 1})
    assert view.output == "reached" and set(statuses(view).values()) == {"skipped", "completed"}
    assert receiver.requests == []


async def test_a_condition_that_is_skipped_takes_no_branch(run: Run) -> None:
    steps = [
        {"id": "check", "type": "condition", "if": "false",
         "config": {"expression": "true", "then": ["yes"], "else": ["no"]}},
        transform("yes", "1"), transform("no", "2"), transform("end", "[yes, no]"),
    ]  # fmt: skip
    view = await run(steps)
    assert statuses(view) == {"check": "skipped", "yes": "skipped", "no": "skipped", "end": "completed"}


REMEMBER: dict[str, Any] = {
    "id": "known",
    "type": "remember",
    "config": {"key": "{{ trigger }}", "ttl": 3600},
}


async def test_a_key_is_seen_first_by_one_of_many_runs(
    database: Database, notifier: Notifier, new_target: NewTarget
) -> None:
    target = await new_target([REMEMBER])
    ids = await accept(database, target, 12, "198.51.100.7")
    views = [await ended(database, notifier, target.account_id, run_id) for run_id in ids]
    outputs = [view.output for view in views]
    assert sorted(output["count"] for output in outputs) == list(range(1, 13))
    assert [output["seen"] for output in outputs].count(False) == 1
    assert len({output["first_at"] for output in outputs}) == 1
    assert views[0].steps[0].input == {"key": "198.51.100.7"}


async def test_what_is_remembered_is_forgotten_when_its_time_is_over(
    database: Database, notifier: Notifier, new_target: NewTarget
) -> None:
    target = await new_target([REMEMBER])
    for expected in (1, 2, 1):
        [run_id] = await accept(database, target, 1, "key")
        view = await ended(database, notifier, target.account_id, run_id)
        assert (view.output["seen"], view.output["count"]) == (expected > 1, expected)
        if expected == 2:
            async with database.connection() as connection:
                await connection.execute(
                    "update remembered_keys set expires_at = now() where automation_id = %s",
                    (target.automation_id,),
                )


KEYS = {"id": "known", "type": "remember", "config": {"keys": "trigger", "ttl": 3600, "renew": True}}


async def test_of_several_keys_each_is_new_once(
    database: Database, notifier: Notifier, new_target: NewTarget
) -> None:
    target = await new_target([KEYS])
    for payload, new, known in (
        (["b", "a", "b"], ["b", "a"], []),
        ([], [], []),
        (["c", "a", 7], ["c", "7"], ["a"]),
    ):
        [run_id] = await accept(database, target, 1, payload)
        view = await ended(database, notifier, target.account_id, run_id)
        assert view.output == {"new": new, "known": known}
    assert view.steps[0].input == {"keys": ["c", "a", "7"]}


async def test_several_keys_at_a_time_are_new_to_one_run_alone(
    database: Database, notifier: Notifier, new_target: NewTarget
) -> None:
    target = await new_target([KEYS])
    forth = await accept(database, target, 4, ["a", "b", "c"])
    back = await accept(database, target, 4, ["c", "b", "a"])
    views = [await ended(database, notifier, target.account_id, run_id) for run_id in (*forth, *back)]
    assert sorted(key for view in views for key in view.output["new"]) == ["a", "b", "c"]


async def test_a_key_that_keeps_coming_is_not_forgotten_where_that_renews_it(
    database: Database, notifier: Notifier, new_target: NewTarget
) -> None:
    target = await new_target([REMEMBER | {"config": REMEMBER["config"] | {"renew": True}}])
    for expected in (1, 2, 3):
        [run_id] = await accept(database, target, 1, "key")
        view = await ended(database, notifier, target.account_id, run_id)
        assert view.output["count"] == expected
        async with database.connection() as connection:
            await connection.execute(
                "update remembered_keys set expires_at = expires_at - interval '50 minutes'"
                " where automation_id = %s",
                (target.automation_id,),
            )


@pytest.mark.parametrize(
    ("payload", "code"),
    [({"a": 1}, "not_an_array"), ([None], "missing_value"), (["k"] * 1001, "too_many_items")],
    ids=["object", "null", "many"],
)
async def test_what_are_no_keys_fails_the_step(run: Run, payload: Any, code: str) -> None:
    view = await run([KEYS], payload)
    assert view.error is not None and view.error["code"] == code


@pytest.mark.parametrize(
    ("payload", "code"), [(None, "missing_value"), ("x" * 513, "bad_key"), ("a\0b", "bad_key")],
    ids=["null", "long", "nul"],
)  # fmt: skip
async def test_what_is_no_key_fails_the_step(run: Run, payload: Any, code: str) -> None:
    view = await run([REMEMBER], payload)
    assert view.error is not None and view.error["code"] == code


@pytest.mark.long
@pytest.mark.executions("shift", "workflow")
async def test_no_more_runs_begin_than_a_workflow_allows(
    database: Database, notifier: Notifier, new_target: NewTarget, receiver: Endpoint
) -> None:
    steps = [webhook(f"{receiver.url}/held"), {"id": "nap", "type": "delay", "config": {"seconds": 2.2}}]
    target = await new_target(steps, concurrency={"limit": 2})
    ids = await accept(database, target, 5)
    notifier.notify("runs_queued")
    await requested(receiver, 2)
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select count(*) filter (where begun) as begun, count(*) as n from run_work"
            " where automation_id = %s",
            (target.automation_id,),
        )
        assert await cursor.fetchone() == {"begun": 2, "n": 5}
    receiver.open.set()
    views = [await ended(database, notifier, target.account_id, run_id) for run_id in ids]
    assert {view.status for view in views} == {"completed"}
    spans = sorted((view.started_at, view.completed_at) for view in views)
    for started, _ in spans:
        assert sum(begun <= started < over for begun, over in spans) <= 2  # pyright: ignore[reportOperatorIssue]


@pytest.mark.executions("shift", "workflow")
async def test_what_comes_over_the_limit_is_cancelled_at_once_where_it_is_skipped(
    database: Database, notifier: Notifier, new_target: NewTarget
) -> None:
    wait = {"id": "wait", "type": "wait", "config": {}}
    target = await new_target([wait], concurrency={"limit": 2, "on_limit": "skip"})

    async def send(key: str | None = None) -> acceptance.RunAcceptance:
        async with database.connection() as connection:
            [accepted] = await acceptance.accept(
                connection, [RunRequest(target, "manual", 1, dedupe_key=key)]
            )
        return accepted

    sent = await asyncio.gather(*(send() for _ in range(6)))
    begun = [one.run_id for one in sent if one.status == "queued"]
    skipped = [one.run_id for one in sent if one.status == "cancelled"]
    assert (len(begun), len(skipped)) == (2, 4)
    for run_id in skipped:
        view = await ended(database, notifier, target.account_id, run_id)
        assert view.status == "cancelled" and view.error is not None
        assert view.error["code"] == "concurrency_limit"
    for run_id in begun:
        await waiting(database, target.account_id, run_id)


async def test_an_event_that_comes_again_is_not_skipped(database: Database, new_target: NewTarget) -> None:
    target = await new_target([], concurrency={"limit": 1, "on_limit": "skip"})
    events = [RunRequest(target, "manual", n, dedupe_key="the same") for n in range(3)]
    async with database.transaction() as connection:
        accepted = await acceptance.accept(connection, events)
    assert {(one.run_id, one.status) for one in accepted} == {(events[0].run_id, "queued")}
    assert [one.repeated for one in accepted] == [False, True, True]


async def test_conditions_and_transforms_show_the_values_that_they_read(run: Run) -> None:
    steps = [
        {
            "id": "check",
            "type": "condition",
            "config": {"expression": "trigger.a.b > 1 && trigger.c != null"},
        },
        transform("each", "[item]"),
    ]
    steps[1]["for_each"] = "trigger.list"
    steps.append(
        {"id": "out", "type": "transform",
         "config": {"mapping": {"x": "trigger.a", "y": "length(trigger.long)", "z": "each[0]"}}}
    )  # fmt: skip
    view = await run(steps, {"a": {"b": 2}, "c": "d", "list": [1, 2], "long": ["x"] * 5000})
    assert [step.input for step in view.steps] == [
        {"trigger.a.b": 2, "trigger.c": "d"},
        [1, 2],
        {"trigger.a": {"b": 2}, "trigger.long": "… (an array of 5000)", "each": [[1], [2]]},
    ]


async def test_a_step_that_fails_shows_what_it_read_too(run: Run) -> None:
    for payload in ({"n": "x"}, {"n": "x", "large": "y" * 70_000}):
        view = await run([transform("bad", "abs(trigger.n)")], payload)
        assert view.steps[0].status == "failed" and view.steps[0].input == {"trigger.n": "x"}
