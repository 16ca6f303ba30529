"""What whoever has an ingest URL is told: of a run that it waits for, and of an event that comes again."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import httpx
import pytest
from psycopg.types.json import Json

from database import Database
from services import responding
from services.process_pool import WorkLost
from tests.api_server import Api, Person
from tests.automations.conftest import api, worker
from tests.automations.engine import Endpoint, transform, until, webhook
from tests.automations.workflows import create, post, problem

__all__ = ["api", "worker"]

pytestmark = pytest.mark.usefixtures("worker")

PAIRS = "length(map(&length(map(&to_string(@), $.trigger)), trigger))"


async def workflow(person: Person, *steps: Any, respond: Any = None, **fields: Any) -> str:
    """The ingest URL of a workflow that answers so."""
    trigger = {"type": "webhook"} | ({} if respond is None else {"respond": respond})
    return (await create(person, trigger=trigger, steps=list(steps), **fields))["webhook_url"]


async def send(
    api: Api, url: str, event: Any = 0, key: str | None = None, wait: int | None = 20
) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return await post(api, url + ("" if wait is None else f"?wait={wait}"), json=event, headers=headers)


async def test_who_waits_gets_the_output_and_neither_steps_nor_input(api: Api, person: Person) -> None:
    url = await workflow(person, transform("hidden", "'canary'"), transform("out", "[trigger.a]"))
    answer = await send(api, url, {"a": 1, "b": "canary"})
    assert answer.status_code == 200
    body = answer.json()
    assert body == {"run_id": body["run_id"], "status": "completed", "output": [1], "error": None}
    assert "canary" not in answer.text and "idempotent-replayed" not in answer.headers


async def test_a_run_that_outlasts_the_wait_is_told_as_it_stands(
    api: Api, person: Person, receiver: Endpoint
) -> None:
    pause = {"id": "pause", "type": "wait", "config": {"timeout": 60}}
    for step, status in ((pause, "waiting"), (webhook(f"{receiver.url}/held", timeout=60), "running")):
        made = await create(person, trigger={"type": "webhook"}, steps=[step])
        assert (await send(api, made["webhook_url"], wait=1)).json()["status"] == status
        by_hand = await person.key.post(f"/api/workflows/{made['id']}/run?wait=1", json={})
        assert (by_hand.status_code, by_hand.json()["status"]) == (202, status)


async def test_a_run_that_failed_says_why_and_has_no_output(api: Api, person: Person) -> None:
    steps = [transform("first", "'canary'"), transform("second", "sum(trigger)")]
    url = await workflow(person, *steps, respond={"status": 201, "body": "{{ first }}"})
    answer = await send(api, url, ["x"])
    assert answer.status_code == 200
    body = answer.json()
    assert (body["status"], body["output"]) == ("failed", None)
    assert (body["error"]["step"], body["error"]["code"]) == ("second", "wrong_type")
    assert "canary" not in answer.text


async def test_the_owner_still_gets_the_whole_run(api: Api, person: Person) -> None:
    made = await create(person, steps=[transform("out", "trigger")])
    answer = await person.key.post(f"/api/workflows/{made['id']}/run?wait=20", json={"input": 5})
    assert (answer.json()["input"], answer.json()["steps"][0]["output"]) == (5, 5)


async def test_respond_is_what_a_completed_run_is_answered_with(api: Api, person: Person) -> None:
    respond = {
        "status": "{{ decide.code }}",
        "headers": {"X-Reply-Run": "{{ run.id }}", "Location": "/orders/{{ trigger.id }}"},
        "body": {
            "id": "{{ trigger.id }}",
            "workflow": "{{ workflow.name }}",
            "kind": '{{ request.headers."x-kind" }}',
            "was": "{{ steps.decide.status }}",
        },
    }
    url = await workflow(person, transform("decide", "{code: 303}"), respond=respond, name="orders")
    answer = await post(api, f"{url}?wait=20", json={"id": 7}, headers={"X-Kind": "new"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/orders/7")
    assert answer.json() == {"id": 7, "workflow": "orders", "kind": "new", "was": "completed"}
    run = (await person.key.get(f"/api/workflows/runs/{answer.headers['x-reply-run']}")).json()
    assert run["status"] == "completed"


async def test_every_answer_forbids_to_guess_its_type_and_to_run_anything(api: Api, person: Person) -> None:
    page = {"headers": {"Content-Type": "text/plain"}, "body": "<script>alert(1)</script>"}
    answer = await send(api, await workflow(person, respond=page))
    assert answer.text == "<script>alert(1)</script>"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"


async def test_a_step_that_did_not_run_reads_as_null(api: Api, person: Person) -> None:
    branches = {"expression": "trigger.x", "then": ["a"], "else": ["b"]}
    decide = {"id": "decide", "type": "condition", "config": branches}
    steps = [decide, transform("a", "'ran'"), transform("b", "'ran'")]
    body = {"a": "{{ a }}", "b": "{{ b }}", "why": "{{ steps.b.status }}", "text": "<{{ b.c }}>"}
    answer = await send(api, await workflow(person, *steps, respond={"body": body}), {"x": 1})
    assert answer.json() == {"a": "ran", "b": None, "why": "skipped", "text": "<>"}


async def test_a_step_that_failed_where_the_run_went_on_says_why(api: Api, person: Person) -> None:
    steps = [transform("bad", "sum(trigger)", on_error="continue"), transform("good", "'x'")]
    body = {"status": "{{ steps.bad.status }}", "error": "{{ steps.bad.error }}", "output": "{{ bad }}"}
    answer = (await send(api, await workflow(person, *steps, respond={"body": body}), ["x"])).json()
    assert (answer["status"], answer["error"]["code"], answer["output"]) == ("failed", "wrong_type", None)
    assert answer["error"].keys() == {"code", "message"}


@pytest.mark.parametrize("respond", [
    {"status": "{{ trigger }}"},
    {"body": "{{ sum(trigger) }}"},
], ids=["a status", "an expression"])  # fmt: skip
async def test_what_cannot_be_rendered_is_told_with_neither_output_nor_value(
    api: Api, person: Person, respond: Any
) -> None:
    url = await workflow(person, transform("out", "'canary'"), respond=respond)
    answer = await send(api, url, "text/html\r\nSet-Cookie: canary")
    assert (answer.status_code, "set-cookie" in answer.headers) == (200, False)
    body = answer.json()
    assert (body["status"], body["output"], body["error"]["code"]) == ("completed", None, "respond_failed")
    assert "canary" not in answer.text


async def test_a_costly_respond_is_rendered_in_the_pool_and_counts_as_more(api: Api, person: Person) -> None:
    url = await workflow(person, respond={"body": "{{ " + PAIRS + " }}"})
    answer = await send(api, url, list(range(150)))
    assert answer.json() == 150
    cheap = await send(api, url, [])
    left = [int(one.headers["ratelimit"].split("r=")[1].split(";")[0]) for one in (answer, cheap)]
    assert answer.status_code == 200 and left[1] == left[0] - 1 < 5997
    too_much = (await send(api, url, list(range(1000)))).json()
    assert too_much["error"]["code"] == "respond_failed"


async def test_where_the_pool_cannot_render_it_the_run_is_told_to_be_done(
    api: Api, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*_: Any) -> Any:
        raise WorkLost

    monkeypatch.setattr(responding, "INLINE_NODES", 0)
    monkeypatch.setattr(api.services.event_checks, "run_in_pool", lost)
    answer = await send(api, await workflow(person, respond={"body": "{{ trigger }}"}), 5)
    assert (answer.json()["status"], answer.json()["error"]["code"]) == ("completed", "respond_failed")


async def test_without_wait_respond_says_nothing(api: Api, person: Person) -> None:
    url = await workflow(person, respond={"status": 201, "body": "x"})
    answer = await send(api, url, wait=None)
    assert (answer.status_code, answer.json()["status"]) == (202, "queued")


@pytest.mark.parametrize(
    "respond", [None, {"status": 418, "body": "{{ trigger }}"}], ids=["plain", "respond"]
)
async def test_a_repeat_that_waits_gets_what_the_first_got(api: Api, person: Person, respond: Any) -> None:
    url = await workflow(person, transform("out", "trigger"), respond=respond)
    first, *others = await asyncio.gather(*(send(api, url, {"n": 1}, "one") for _ in range(4)))
    later = await send(api, url, {"n": 2}, "one")
    answers = [first, *others, later]
    assert {(one.status_code, one.text) for one in answers} == {(later.status_code, later.text)}
    assert later.status_code == (418 if respond else 200)
    replayed = [one.headers.get("idempotent-replayed") for one in answers]
    assert replayed.count(None) == 1 and later.headers["idempotent-replayed"] == "true"


async def test_a_repeat_gets_the_respond_of_the_version_that_ran(api: Api, person: Person) -> None:
    made = await create(person, trigger={"type": "webhook", "respond": {"body": "old {{ request.query.q }}"}})
    url, key = made["webhook_url"], {"Idempotency-Key": "one"}
    first = await post(api, f"{url}?wait=20&q=a", json={}, headers=key)
    changed = {"trigger": {"type": "webhook", "respond": {"body": "new"}}}
    await person.key.patch(f"/api/workflows/{made['id']}", json=changed)
    again = await post(api, f"{url}?wait=20&q=b", json={}, headers=key)
    assert first.json() == again.json() == "old a"
    assert (await post(api, f"{url}?wait=20", json={})).json() == "new"


async def test_a_repeat_is_told_where_the_first_run_stands(
    api: Api,
    person: Person,
    receiver: Endpoint,
) -> None:
    url = await workflow(person, webhook(f"{receiver.url}/held"))
    first = await send(api, url, key="one", wait=None)
    assert (first.json()["status"], first.json()["message"]) == ("queued", "Accepted.")

    async def repeated(status: str, wait: int | None = None) -> bool:
        again = await send(api, url, {"other": 1}, "one", wait)
        assert (again.status_code, again.headers["idempotent-replayed"]) == (202, "true")
        assert (again.json()["run_id"], again.json()["message"]) == (
            first.json()["run_id"],
            "Already accepted.",
        )
        assert again.headers["location"] == first.headers["location"]
        return again.json()["status"] == status

    await until(lambda: repeated("running"))
    assert await repeated("running", wait=1)
    await person.key.post(f"{first.headers['location']}/cancel")
    assert await repeated("cancelled")
    receiver.open.set()
    waited = await send(api, url, key="one")
    assert (waited.status_code, waited.json()["status"]) == (200, "cancelled")
    assert waited.json()["run_id"] == first.json()["run_id"]


async def test_an_event_that_is_skipped_is_told_so_at_once_and_whenever_it_comes_again(
    api: Api, person: Person, receiver: Endpoint
) -> None:
    url = await workflow(
        person,
        webhook(f"{receiver.url}/held"),
        respond={"body": "x"},
        concurrency={"limit": 1, "on_limit": "skip"},
    )
    await send(api, url, wait=None)
    skipped = await send(api, url, key="one", wait=None)
    assert (skipped.status_code, skipped.json()["status"]) == (202, "cancelled")
    again = await send(api, url, key="one", wait=None)
    assert (again.status_code, again.json()["status"]) == (202, "cancelled")
    assert again.json()["run_id"] == skipped.json()["run_id"]
    for key, run_id in (("one", skipped.json()["run_id"]), ("two", None)):
        waited = await send(api, url, key=key, wait=1)
        assert (waited.status_code, waited.json()["status"]) == (200, "cancelled")
        assert waited.json()["error"]["code"] == "concurrency_limit"
        assert run_id in (None, waited.json()["run_id"])
    receiver.open.set()


async def test_a_repeat_by_dedupe_or_webhook_id_says_so_too(api: Api, person: Person) -> None:
    trigger = {"type": "webhook", "dedupe": "trigger.id"}
    url = (await create(person, trigger=trigger))["webhook_url"]
    for event, headers in (({"id": 1}, {}), ({}, {"webhook-id": "m"})):
        answers = [await post(api, url, json=event, headers=headers) for _ in range(2)]
        assert [one.headers.get("idempotent-replayed") for one in answers] == [None, "true"]


async def test_a_paused_workflow_answers_409_to_those_who_wait_too(api: Api, person: Person) -> None:
    url = await workflow(person, status="paused", respond={"body": "x"})
    assert problem(await send(api, url)) == (409, "workflow_not_active")


async def test_of_the_request_only_what_respond_reads_is_kept(
    api: Api, person: Person, database: Database
) -> None:
    kept: list[bool] = []
    for body in ("{{ request.query.wait }}", "{{ trigger }}"):
        url = await workflow(person, respond={"headers": {"X-Reply-Run": "{{ run.id }}"}, "body": body})
        answer = await send(api, url, "20")
        assert answer.json() == "20"
        async with database.connection() as connection:
            run_id = UUID(answer.headers["x-reply-run"])
            cursor = await connection.execute("select request from runs where id = %s", (run_id,))
            row = await cursor.fetchone()
        kept.append(row is not None and row["request"] is not None)
    assert kept == [True, False]


async def test_a_workflow_shows_its_respond_and_refuses_what_cannot_be_one(api: Api, person: Person) -> None:
    respond = {"status": 201, "body": {"a": "{{ trigger.a }}"}}
    made = await create(person, trigger={"type": "webhook", "respond": respond})
    read = (await person.key.get(f"/api/workflows/{made['id']}")).json()
    assert read["trigger"] == {"type": "webhook", "respond": respond}
    bad = {"type": "webhook", "respond": {"body": "{{ secrets.KEY }}"}}
    answer = await person.key.patch(f"/api/workflows/{made['id']}", json={"trigger": bad})
    assert [(e["pointer"], e["code"]) for e in answer.json()["errors"]] == [
        ("/trigger/respond/body", "secret_not_allowed")
    ]


async def test_a_workflow_from_before_loses_headers_that_are_refused_now_and_says_so(
    api: Api, person: Person, database: Database
) -> None:
    made = await create(person, trigger={"type": "webhook", "respond": {"body": "x"}})
    former = {"Link": "</evil>; rel=preload", "X-Accel-Redirect": "/etc/passwd", "X-Reply-A": "1"}
    definition = {"name": "x", "trigger": {"type": "webhook", "respond": {"headers": former, "body": "x"}}}
    async with database.connection() as connection:
        await connection.execute(
            "update automation_versions set definition = %s where automation_id = %s",
            (Json(definition), made["id"]),
        )
    answer = await send(api, made["webhook_url"], 1)
    assert answer.text == '"x"' and answer.headers["x-reply-a"] == "1"
    assert not {"link", "x-accel-redirect"} & set(answer.headers)
    warnings = (await person.key.get(f"/api/workflows/{made['id']}")).json()["warnings"]
    assert [(one["pointer"], one["code"]) for one in warnings] == [
        ("/trigger/respond/headers/Link", "header_left_out"),
        ("/trigger/respond/headers/X-Accel-Redirect", "header_left_out"),
    ]
    changed = await person.key.patch(f"/api/workflows/{made['id']}", json={"name": "y"})
    assert {error["code"] for error in changed.json()["errors"]} == {"forbidden_header"}
