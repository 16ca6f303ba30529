"""Runs from acceptance to their end, on a real Temporal server with a real worker."""

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from temporalio.client import Client

from database import Database
from models.runs import run_work
from models.runs.runs import QUEUED_CHANNEL
from notifications import Notifier
from tests.automations.carriers import wrong_times
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    Run,
    accept_each,
    ended,
    events_of,
    run_workflow,
    statuses,
    transform,
    until,
    waiting,
    webhook,
)


async def test_a_workflow_without_steps_completes_at_once(run: Run) -> None:
    view = await run([])
    assert (view.status, view.output, view.steps_total) == ("completed", None, 0)


async def test_lookup_condition_transform_and_webhook_run_in_order(run: Run, receiver: Endpoint) -> None:
    steps = [
        {"id": "lookup", "type": "ip_lookup", "config": {"field": "trigger.ip"}},
        {"id": "near", "type": "condition", "config": {"expression": "lookup.location.country_code == 'NL'"}},
        transform("shape", "{city: lookup.location.city, asn: lookup.asn.asn}"),
        webhook(receiver.url, body={"text": "from {{ shape.city }}", "data": "{{ shape }}"}),
    ]
    view = await run(steps, {"ip": "193.0.6.139"})
    assert view.status == "completed" and set(statuses(view).values()) == {"completed"}
    assert json.loads(receiver.requests[0]["body"]) == {
        "text": "from Amsterdam", "data": {"city": "Amsterdam", "asn": 3333},
    }  # fmt: skip
    assert view.output["status"] == 200 and view.output["body"] == {"ok": True}
    assert view.started_at and view.completed_at and view.started_at <= view.completed_at


async def test_a_false_condition_ends_the_run_as_completed(run: Run, receiver: Endpoint) -> None:
    steps = [
        {"id": "big", "type": "condition", "config": {"expression": "trigger.n > 10"}},
        webhook(receiver.url),
    ]
    view = await run(steps, {"n": 1})
    assert view.status == "completed" and statuses(view) == {"big": "completed", "call": "skipped"}
    assert receiver.requests == []


async def test_runs_of_one_claim_go_their_own_ways(run: Run, receiver: Endpoint) -> None:
    steps = [
        {"id": "big", "type": "condition", "config": {"expression": "trigger.n > 2"}},
        webhook(receiver.url, body="{{ trigger }}"),
        transform("answer", "trigger.n"),
    ]
    views = await run.many(steps, [{"n": n} for n in range(6)])
    assert [view.output for view in views] == [{"result": False}] * 3 + [3, 4, 5]
    assert sorted(json.loads(r["body"])["n"] for r in receiver.requests) == [3, 4, 5]


async def test_a_failing_run_does_not_harm_those_beside_it(run: Run, receiver: Endpoint) -> None:
    def answer(request: dict[str, Any]) -> web.Response:
        return web.json_response({}, status=404 if request["body"] == "2" else 200)

    receiver.answer = answer
    views = await run.many([webhook(receiver.url, body="{{ trigger }}")], [1, 2, 3])
    assert [view.status for view in views] == ["completed", "failed", "completed"]
    assert views[1].error == {
        "code": "http_status", "message": "The endpoint answered 404.", "step": "call", "attempt": 1,
    }  # fmt: skip


@pytest.mark.executions("shift", "workflow")
async def test_a_call_that_may_succeed_later_is_repeated_under_the_same_id(
    run: Run, receiver: Endpoint
) -> None:
    def answer(request: dict[str, Any]) -> web.Response:
        return web.json_response({}, status=503 if len(receiver.requests) < 3 else 200)

    receiver.answer = answer
    view = await run([webhook(receiver.url)])
    assert view.status == "completed" and view.steps[0].attempts == 3
    told = [(one.attempt, one.error["message"]) for one in view.steps[0].attempt_log]
    assert told == [(1, "The endpoint answered 503."), (2, "The endpoint answered 503.")]
    assert not [*wrong_times(view)] and view.steps[0].attempt_started_at is not None
    ids = {(r["headers"]["webhook-id"], r["headers"]["Idempotency-Key"]) for r in receiver.requests}
    assert len(receiver.requests) == 3 and len(ids) == 1


async def test_a_webhook_without_a_body_sends_the_data_of_the_run(run: Run, receiver: Endpoint) -> None:
    steps = [transform("first", "'one'"), transform("beside", "'two'", needs=["first"])]
    view = await run([*steps, webhook(receiver.url)], {"n": 1})
    assert view.status == "completed", view.error
    [request] = receiver.requests
    sent = json.loads(request["body"])
    assert view.started_at is not None and request["headers"]["Content-Type"] == "application/json"
    assert sent.keys() == {"workflow", "run", "trigger", "output"} and sent["run"].keys() == RUN_FIELDS
    assert sent["workflow"] == {"id": str(view.workflow_id), "name": "test"}
    assert (sent["run"]["id"], sent["trigger"], sent["output"]) == (str(view.id), {"n": 1}, "two")
    assert view.steps[2].input["body"] == sent


RUN_FIELDS = {"id", "queued_at", "started_at"}


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
async def test_a_request_of_a_method_that_has_no_body_gets_none(
    run: Run, receiver: Endpoint, method: str
) -> None:
    view = await run([webhook(receiver.url, method=method)], {"n": 1})
    [request] = receiver.requests
    assert (view.status, request["body"]) == ("completed", "")
    assert "Content-Type" not in request["headers"] and view.steps[0].input["body"] is None


@pytest.mark.executions("shift", "workflow")
async def test_a_call_that_goes_on_failing_fails_the_run_after_its_attempts(
    run: Run, receiver: Endpoint
) -> None:
    receiver.answer = lambda request: web.json_response({}, status=500)
    view = await run([webhook(receiver.url), transform("after", "'never'")])
    assert view.status == "failed" and statuses(view) == {"call": "failed", "after": "skipped"}
    assert len(receiver.requests) == 3 and view.error is not None and view.error["attempt"] == 3


@pytest.mark.executions("shift", "workflow")
async def test_a_failed_step_with_on_error_continue_lets_the_run_complete(run: Run) -> None:
    steps = [
        {"id": "lookup", "type": "ip_lookup", "config": {"value": "{{ trigger }}"}, "on_error": "continue"},
        transform("after", "{status: steps.lookup.status, code: steps.lookup.error.code, out: lookup}"),
    ]
    view = await run(steps, "not an address")
    assert view.status == "completed"
    assert view.output == {"status": "failed", "code": "invalid_input", "out": None}


async def test_a_forbidden_address_fails_at_once(run: Run) -> None:
    view = await run([webhook("http://169.254.169.254/latest/meta-data")])
    assert view.error is not None and view.error["code"] == "forbidden_address"
    assert view.steps[0].attempts == 1


async def test_an_expression_that_cannot_be_evaluated_fails_its_step(run: Run) -> None:
    view = await run([transform("bad", "abs(trigger)")], "text")
    assert view.status == "failed" and view.error is not None
    assert (view.error["code"], view.error["step"]) == ("wrong_type", "bad")


async def test_what_takes_long_to_evaluate_is_evaluated_beside_the_worker(run: Run) -> None:
    heavy = "sort_by(trigger, &to_string(@))[0]"
    payload = [str(n % 97) for n in range(2000)]
    views = await run.many([transform(f"s{n}", heavy) for n in range(3)], [payload] * 8)
    assert {view.output for view in views} == {"0"}


async def test_answers_that_postgres_would_refuse_are_kept(run: Run, receiver: Endpoint) -> None:
    receiver.answer = lambda request: web.Response(
        body=b'{"nul": "\\u0000", "text": "\xff"}', content_type="application/json"
    )
    view = await run([webhook(receiver.url)])
    assert view.status == "completed" and "nul" in json.dumps(view.output["body"])


@pytest.mark.executions("shift", "workflow")
async def test_independent_steps_run_side_by_side(run: Run, receiver: Endpoint) -> None:
    steps = [
        webhook(f"{receiver.url}/a", "a"),
        webhook(f"{receiver.url}/b", "b") | {"needs": []},
        transform("both", "[a.status, b.status]", needs=["a", "b"]),
    ]
    assert (await run(steps)).output == [200, 200]


async def test_runs_beside_a_slow_call_go_on_without_it(
    run: Run, receiver: Endpoint, new_target: NewTarget, database: Database, notifier: Notifier
) -> None:
    url = receiver.url + "/{{ trigger }}"
    target = await new_target(
        [webhook(url), webhook(f"{receiver.url}/next", "next"), transform("end", "trigger")]
    )
    held, *mates = await accept_each(database, target, ("held", "a", "b", "c"))
    views = [await ended(database, notifier, target.account_id, run_id) for run_id in mates]
    assert [view.output for view in views] == ["a", "b", "c"]
    receiver.open.set()
    view = await ended(database, notifier, target.account_id, held)
    assert (view.status, view.output) == ("completed", "held")
    assert sorted(r["path"] for r in receiver.requests) == sorted(["/held", "/a", "/b", "/c"] + ["/next"] * 4)


@pytest.mark.executions("shift", "workflow")
async def test_a_short_delay_is_waited_for(run: Run) -> None:
    view = await run(
        [{"id": "wait", "type": "delay", "config": {"seconds": 1}}, transform("after", "wait.until")]
    )
    assert view.status == "completed" and view.output == view.steps[0].output["until"]
    assert (view.steps[0].duration_ms or 0) >= 1000


@pytest.mark.parametrize(
    ("until", "code"),
    [
        ("soon", "bad_timestamp"),
        ("2030-01-01T00:00:00", "bad_timestamp"),
        (7, "bad_timestamp"),
        ("9999-01-01T00:00:00Z", "delay_too_long"),
    ],
)
async def test_a_delay_until_no_usable_time_fails(run: Run, until: Any, code: str) -> None:
    steps = [{"id": "wait", "type": "delay", "config": {"until": "{{ trigger.at }}"}}]
    view = await run(steps, {"at": until})
    assert view.error is not None and view.error["code"] == code


async def test_a_delay_until_a_past_time_is_over_at_once(run: Run) -> None:
    steps = [{"id": "wait", "type": "delay", "config": {"until": "{{ trigger }}"}}]
    view = await run(steps, "2020-02-29T12:00:00+02:00")
    assert view.output == {"until": "2020-02-29T10:00:00Z"}


async def test_a_long_delay_leaves_its_carrier_and_other_runs_go_on(
    run: Run, database: Database, notifier: Notifier, new_target: NewTarget, client: Client
) -> None:
    steps = [
        {"id": "long", "type": "condition", "config": {"expression": "trigger", "then": ["wait"]}},
        {"id": "wait", "type": "delay", "config": {"days": 30}},
        transform("after", "[trigger, wait.until != null]"),
    ]
    target = await new_target(steps)
    ids = await accept_each(database, target, (True, False))
    assert (await ended(database, notifier, target.account_id, ids[1])).output == [False, False]
    view = await waiting(database, target.account_id, ids[0])
    assert statuses(view) == {"long": "completed", "wait": "waiting", "after": "pending"}
    await wake_now(database, notifier, client, ids[0])
    view = await ended(database, notifier, target.account_id, ids[0])
    assert (view.status, view.output) == ("completed", [True, True])
    assert view.steps[1].started_at and view.steps[1].started_at < view.steps[1].completed_at


async def wake_now(database: Database, notifier: Notifier, client: Client, run_id: UUID) -> None:
    """Let thirty days pass: the delay is over, and the run is queued.

    What is shown is that the timer is thirty days long, and what happens when it ends; the sweep queues the
    run here. That Temporal's timer does it at its time is shown over seconds in test_parked_runs.
    """
    workflow = await run_workflow(client, run_id)

    async def timer() -> Any:
        return await events_of(workflow, "timer_started")

    [event] = await until(timer)
    assert event.timer_started_event_attributes.start_to_fire_timeout.ToTimedelta() > timedelta(days=29)
    async with database.connection() as connection:
        await connection.execute(
            "update run_work set wake_at = now() - interval '2 seconds',"
            " progress = jsonb_set(progress::jsonb, '{steps,wait,until}', to_jsonb(now())) where run_id = %s",
            (run_id,),
        )
        await run_work.wake_due(connection)
    notifier.notify(QUEUED_CHANNEL)


async def test_a_header_of_the_users_takes_the_place_of_ours_however_it_is_written(
    run: Run, receiver: Endpoint
) -> None:
    await run(
        [
            webhook(
                receiver.url,
                body="text",
                headers={"idempotency-key": "mine", "WEBHOOK-ID": "also mine", "content-TYPE": "text/x"},
            )
        ]
    )
    [request] = receiver.requests
    sent = sorted((name.lower(), value) for name, value in request["headers"].items())
    assert [value for name, value in sent if name in ("idempotency-key", "webhook-id")] == [
        "mine",
        "also mine",
    ]
