"""What steps can do beyond the plain case: items, much data, timeouts."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from database import Database
from language.records import INLINE_BYTES
from notifications import Notifier
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    Run,
    accept_each,
    ended,
    statuses,
    transform,
    webhook,
)


def each(url: str, array: str = "trigger", **more: Any) -> dict[str, Any]:
    """A webhook step that sends each item of an array."""
    return {**webhook(url, "each", body="{{ item }}"), "for_each": array, **more}


async def test_a_step_with_for_each_gives_an_array_in_order(run: Run, receiver: Endpoint) -> None:
    receiver.answer = lambda request: web.json_response(int(request["body"]) * 10)
    view = await run(
        [each(receiver.url, max_concurrency=3), transform("all", "each[].body")], list(range(10))
    )
    assert view.status == "completed" and view.output == [n * 10 for n in range(10)]
    assert len({request["headers"]["webhook-id"] for request in receiver.requests}) == 10


async def test_an_item_and_a_step_with_a_similar_id_send_under_ids_of_their_own(
    run: Run, receiver: Endpoint
) -> None:
    view = await run([each(receiver.url), webhook(receiver.url, "each-1")], [0, 1])
    assert view.status == "completed"
    ids = [request["headers"]["webhook-id"].removeprefix(str(view.id)) for request in receiver.requests]
    assert sorted(ids) == [":each-1", ":each:0", ":each:1"]


async def test_for_each_over_nothing_gives_an_empty_array(run: Run, receiver: Endpoint) -> None:
    view = await run([each(receiver.url)], [])
    assert (view.status, view.output, receiver.requests) == ("completed", [], [])


@pytest.mark.executions("shift", "workflow")
async def test_no_more_items_are_at_work_than_max_concurrency_allows(run: Run, receiver: Endpoint) -> None:
    at_work = most = 0

    async def slow(request: web.Request) -> web.Response:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        if most >= 4:
            receiver.open.set()
        await receiver.open.wait()
        await asyncio.sleep(0.02)
        at_work -= 1
        return web.json_response({})

    receiver.handler = slow
    await run([each(receiver.url, max_concurrency=4)], list(range(20)))
    assert most == 4


@pytest.mark.parametrize(
    ("payload", "code"),
    [({"a": 1}, "not_an_array"), (None, "not_an_array"), (list(range(1001)), "too_many_items")],
)
async def test_for_each_over_what_is_no_usable_array_fails_the_step(
    run: Run, receiver: Endpoint, payload: Any, code: str
) -> None:
    view = await run([each(receiver.url)], payload)
    assert view.error is not None and view.error["code"] == code and receiver.requests == []


@pytest.mark.executions("shift", "workflow")
async def test_an_item_that_fails_is_an_error_among_the_outputs_or_fails_the_step(
    run: Run, receiver: Endpoint
) -> None:
    receiver.answer = lambda request: web.json_response({}, status=404 if request["body"] == "2" else 200)
    view = await run(
        [each(receiver.url, on_error="continue"), transform("codes", "each[].error.code")], [1, 2]
    )
    assert (view.status, view.output) == ("completed", ["http_status"])
    view = await run([each(receiver.url)], [1, 2, 3])
    assert view.error is not None and view.error["message"] == "Item 1: The endpoint answered 404."


async def test_a_run_shows_how_many_items_its_steps_had_and_how_many_failed(
    run: Run, receiver: Endpoint
) -> None:
    receiver.answer = lambda request: web.json_response({}, status=404 if request["body"] == "2" else 200)
    steps = [each(receiver.url, on_error="continue"), transform("more", "item", for_each="[`1`]")]
    view = await run([*steps, transform("end", "'done'")], [1, 2, 3])
    shown = [(step.items_total, step.items_failed) for step in view.steps]
    assert shown == [(3, 1), (1, 0), (None, None)]
    assert (view.items_total, view.items_failed) == (4, 1)


async def test_a_step_of_which_enough_items_fail_fails_the_run(run: Run, receiver: Endpoint) -> None:
    receiver.answer = lambda request: web.json_response({}, status=404)
    steps = [each(receiver.url, on_error="continue"), transform("never", "'done'")]
    view = await run(steps, [1, 2])
    assert (view.status, statuses(view)) == ("failed", {"each": "failed", "never": "skipped"})
    message = "2 of 2 items failed; the first is item 0 (http_status): The endpoint answered 404."
    assert view.error == {"code": "items_failed", "message": message, "step": "each"}


@pytest.mark.parametrize("expression", ["@", "$", "[@]", "{all: steps}", "merge(@, {x: 'y'})", "values(@)"])
async def test_the_output_of_a_step_can_hold_all_that_it_reads_as_it_was(run: Run, expression: str) -> None:
    view = await run([transform("a", "'first'"), transform("b", expression), transform("c", "b")], 1)
    assert (view.status, statuses(view)) == ("completed", dict.fromkeys("abc", "completed"))
    written = json.dumps(view.output)
    assert '"first"' in written and '"b"' not in written


@pytest.mark.executions("shift", "workflow")
async def test_an_item_is_repeated_under_its_own_id_and_the_others_are_not(
    run: Run, receiver: Endpoint
) -> None:
    def answer(request: dict[str, Any]) -> web.Response:
        tries = sum(one["body"] == request["body"] for one in receiver.requests)
        return web.json_response({}, status=503 if request["body"] == "1" and tries < 3 else 200)

    receiver.answer = answer
    view = await run([each(receiver.url)], [0, 1, 2])
    assert view.status == "completed"
    assert sorted(request["body"] for request in receiver.requests) == ["0", "1", "1", "1", "2"]
    assert len({request["headers"]["webhook-id"] for request in receiver.requests}) == 3


async def test_a_transform_goes_over_items(run: Run) -> None:
    steps = [transform("twice", "[item, $.trigger[0]]", for_each="trigger")]
    assert (await run(steps, [7, 8])).output == [[7, 7], [8, 7]]


@pytest.mark.executions("shift", "workflow")
async def test_outputs_too_large_to_be_kept_in_memory_can_be_read_by_every_kind_of_expression(
    run: Run, receiver: Endpoint
) -> None:
    big = {"filler": "x" * INLINE_BYTES, "n": 5, "items": [1, 2, 3], "until": "2020-01-01T00:00:00Z"}
    receiver.answer = lambda request: web.json_response(big if request["path"] == "/big" else {"got": 1})
    steps = [
        webhook(f"{receiver.url}/big", "big"),
        {"id": "five", "type": "condition", "config": {"expression": "big.body.n == 5"}},
        {"id": "past", "type": "delay", "config": {"until": "{{ big.body.until }}"}},
        webhook(receiver.url, "call", body="{{ steps.big.output.body.n }}"),
        each(receiver.url, "big.body.items"),
        transform("whole", "big.body"),
        transform("end", "[length(whole.filler), big.body.n, steps.whole.output.n, length(each)]"),
    ]
    view = await run(steps)
    assert view.status == "completed" and view.output == [INLINE_BYTES, 5, 5, 3]
    assert set(statuses(view).values()) == {"completed"}
    assert sorted(request["body"] for request in receiver.requests[1:]) == ["1", "2", "3", "5"]


async def test_a_large_event_can_be_read_too(run: Run) -> None:
    view = await run([transform("n", "trigger.n")], {"filler": "x" * INLINE_BYTES, "n": 9})
    assert view.output == 9


async def test_inputs_of_several_mebibytes_together_reach_their_steps(
    database: Database, notifier: Notifier, new_target: NewTarget, receiver: Endpoint
) -> None:
    target = await new_target([webhook(receiver.url, "a"), webhook(receiver.url, "b", body="{{ a.body }}")])
    receiver.answer = lambda request: web.json_response("x" * 60_000)
    run_ids = await accept_each(database, target, [None] * 64)
    views = await asyncio.gather(
        *(ended(database, notifier, target.account_id, run_id) for run_id in run_ids)
    )
    assert {view.status for view in views} == {"completed"}
    assert sum(len(request["body"]) >= 60_000 for request in receiver.requests) == 64


async def test_a_step_may_read_much_data(run: Run, receiver: Endpoint) -> None:
    makers = [transform(f"s{n}", "trigger.filler") for n in range(40)]
    lengths = ", ".join(f"length(s{n})" for n in range(40))
    view = await run(
        [*makers, webhook(receiver.url, body=f"{{{{ [{lengths}] }}}}")], {"filler": "x" * 60_000}
    )
    assert view.status == "completed"
    assert json.loads(receiver.requests[0]["body"]) == [60_000] * 40


@pytest.mark.executions("shift", "workflow")
async def test_a_steps_timeout_bounds_all_its_attempts(run: Run, receiver: Endpoint) -> None:
    view = await run([webhook(f"{receiver.url}/held") | {"timeout": 2}])
    assert view.error is not None and view.error["code"] == "timeout"
    assert len(receiver.requests) == 1
    receiver.answer = lambda request: web.json_response({}, status=503)
    retry = {"max_attempts": 10, "initial_seconds": 50}
    view = await run([webhook(receiver.url) | {"timeout": 20, "retry": retry}])
    assert view.error is not None and view.error["code"] == "http_status"
    assert view.steps[0].attempts == 1


async def test_a_url_with_a_missing_part_is_not_called(run: Run, receiver: Endpoint) -> None:
    steps = [webhook(receiver.url + "/people/{{ trigger.id }}", body="{{ trigger.id }} is null here")]
    view = await run(steps, {"id": 7})
    assert view.status == "completed" and receiver.requests[0]["body"] == "7 is null here"
    view = await run(steps, {})
    assert view.error is not None and view.error["code"] == "missing_value"
    assert view.error["message"] == "At character 33: trigger.id has no value."
    assert len(receiver.requests) == 1


async def test_a_value_in_a_url_cannot_choose_another_path_or_parameter(run: Run, receiver: Endpoint) -> None:
    steps = [webhook(receiver.url + "/people/{{ trigger }}/notes?for={{ trigger }}")]
    view = await run(steps, "../admin?all=1&x #é")
    assert view.status == "completed"
    encoded = "..%2Fadmin%3Fall%3D1%26x%20%23%C3%A9"
    assert view.steps[0].input["url"] == f"{receiver.url}/people/{encoded}/notes?for={encoded}"
    assert receiver.requests[0]["path"] == "/people/../admin?all=1&x #é/notes"
    whole = await run([webhook("{{ trigger }}")], f"{receiver.url}/as/it/is?a=b")
    assert whole.steps[0].input["url"] == f"{receiver.url}/as/it/is?a=b"


@pytest.mark.parametrize(
    ("success", "status", "expected"), [(["404", 200], 404, "completed"), ("3xx", 200, "failed")]
)
async def test_success_says_which_statuses_count_as_such(
    run: Run, receiver: Endpoint, success: Any, status: int, expected: str
) -> None:
    receiver.answer = lambda request: web.json_response({}, status=status)
    assert (await run([webhook(receiver.url, success=success)])).status == expected
