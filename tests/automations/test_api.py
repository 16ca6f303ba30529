"""Workflows, ingest and runs over HTTP."""

import asyncio
import json
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import web

from database import Database
from tests.api_server import Api, Person
from tests.automations.engine import Endpoint, transform, until, webhook
from tests.automations.workflows import create, post, problem, wrong

JSON = {"Content-Type": "application/json"}


async def test_a_created_workflow_is_active_with_version_1_and_an_ingest_url(
    api: Api, person: Person
) -> None:
    steps = [transform("a", "trigger.x")]
    made = await create(person, steps=steps, description="what it is for")
    assert made["webhook_url"].startswith(f"{api.services.settings.address}/api/workflows/ingest/")
    assert (made["status"], made["version"], made["steps"]) == ("active", 1, steps)
    read = await person.key.get(f"/api/workflows/{made['id']}")
    assert read.headers["etag"] == '"v1"'
    assert read.json() == {**made, "warnings": None}


NEEDS_AN_EMAIL = {
    "type": "object",
    "properties": {"email": {"type": "string", "format": "email"}},
    "required": ["email"],
}


async def test_an_input_that_does_not_meet_the_schema_starts_no_run(api: Api, person: Person) -> None:
    made = await create(person, input_schema=NEEDS_AN_EMAIL)
    assert made["input_schema"] == NEEDS_AN_EMAIL
    run = f"/api/workflows/{made['id']}/run"
    assert wrong(await person.key.post(run, json={"input": {}})) == {("/input/email", "required")}
    assert wrong(await person.key.post(run, json={"input": {"email": 5}})) == {("/input/email", "wrong_type")}
    assert wrong(await post(api, made["webhook_url"], json={})) == {("/email", "required")}
    assert wrong(await post(api, made["webhook_url"], json=["x" * 100_000])) == {("", "wrong_type")}
    assert (await person.key.post(run, json={"input": {"email": "a@example.com"}})).status_code == 202
    assert (await post(api, made["webhook_url"], json={"email": "a@example.com"})).status_code == 202


async def test_a_repeat_that_does_not_meet_the_schema_is_still_the_first_run(
    api: Api, person: Person
) -> None:
    made = await create(person, input_schema=NEEDS_AN_EMAIL)
    path, key = made["webhook_url"], {"Idempotency-Key": "one"}
    first = await post(api, path, json={"email": "ada@example.com"}, headers=key)
    again = await post(api, path, json={}, headers=key)
    assert again.status_code == 202 and again.json()["run_id"] == first.json()["run_id"]
    other = await post(api, path, json={}, headers={"Idempotency-Key": "two"})
    assert other.status_code == 400


async def test_each_version_has_its_own_input_schema(api: Api, person: Person) -> None:
    made = await create(person, input_schema=NEEDS_AN_EMAIL)
    assert (await post(api, made["webhook_url"], json={})).status_code == 400
    await person.key.patch(f"/api/workflows/{made['id']}", json={"input_schema": None})
    assert (await post(api, made["webhook_url"], json={})).status_code == 202


async def test_a_run_shows_the_version_that_it_ran(api: Api, person: Person, worker: None) -> None:
    made = await create(person, steps=[transform("a", "'first'")])
    old = (await post(api, f"{made['webhook_url']}?wait=20", json={})).json()
    await person.key.patch(f"/api/workflows/{made['id']}", json={"steps": [transform("b", "'second'")]})
    new = (await post(api, f"{made['webhook_url']}?wait=20", json={})).json()
    runs = [(await person.key.get(f"/api/workflows/runs/{r['run_id']}")).json() for r in (old, new)]
    assert [(r["workflow_version"], r["output"]) for r in runs] == [(1, "first"), (2, "second")]
    assert [[step["id"] for step in r["steps"]] for r in runs] == [["a"], ["b"]]


async def test_workflows_are_listed_by_page_newest_first(api: Api) -> None:
    person = await api.person()
    names = [
        (await create(person, name=f"w{n}", status="draft" if n else "active"))["name"] for n in range(3)
    ]
    page = (await person.key.get("/api/workflows?limit=2")).json()
    assert ([w["name"] for w in page["workflows"]], page["total"], page["page"]) == (names[:0:-1], 3, 1)
    rest = (await person.key.get("/api/workflows?limit=2&page=2")).json()
    assert [w["name"] for w in rest["workflows"]] == names[:1]
    assert (await person.key.get("/api/workflows?status=active")).json()["total"] == 1


async def test_workflows_are_listed_by_whether_agents_may_see_them(api: Api) -> None:
    person = await api.person()
    for name, fields in {"seen": {}, "told": {"agents": True}, "hidden": {"agents": False}}.items():
        await create(person, name=name, **fields)
    for asked, names in {"true": ["told", "seen"], "false": ["hidden"]}.items():
        page = (await person.key.get(f"/api/workflows?agents={asked}")).json()
        assert ([one["name"] for one in page["workflows"]], page["total"]) == (names, len(names))


async def test_a_deleted_workflow_takes_no_events_but_its_runs_stay(api: Api, person: Person) -> None:
    made = await create(person)
    accepted = await post(api, made["webhook_url"], json={})
    gone = await person.key.delete(f"/api/workflows/{made['id']}")
    assert (gone.status_code, gone.json()["success"]) == (200, True)
    assert problem(await person.key.get(f"/api/workflows/{made['id']}"))[0] == 404
    assert problem(await person.key.delete(f"/api/workflows/{made['id']}"))[0] == 404
    assert problem(await post(api, made["webhook_url"], json={}))[0] == 404
    assert (await person.key.get(accepted.headers["location"])).status_code == 200


async def test_deleting_a_workflow_ends_its_runs_where_that_is_asked_for(
    api: Api, person: Person, worker: None, receiver: Endpoint
) -> None:
    receiver.answer = lambda request: web.Response(status=503)
    slow = webhook(receiver.url) | {"retry": {"max_attempts": 2, "initial_seconds": 60}}
    made = await create(person, steps=[slow])
    accepted = await post(api, made["webhook_url"], json={})

    async def called() -> object:
        return receiver.requests

    await until(called)
    await person.key.delete(f"/api/workflows/{made['id']}?cancel_runs=true")

    async def cancelled() -> bool:
        return (await person.key.get(accepted.headers["location"])).json()["status"] == "cancelled"

    await until(cancelled)


async def test_another_accounts_workflow_is_unknown(api: Api, person: Person) -> None:
    made, stranger = await create(person), await api.person()
    for path in (f"/api/workflows/{made['id']}", f"/api/workflows/{uuid4()}", "/api/workflows/nonsense"):
        assert problem(await stranger.key.get(path)) == (404, "not_found")


async def test_an_event_is_accepted_with_the_id_and_place_of_its_run(api: Api, person: Person) -> None:
    made = await create(person)
    response = await post(api, made["webhook_url"], json={"a": 1})
    assert response.status_code == 202 and response.json()["status"] == "queued"
    run = (await person.key.get(response.headers["location"])).json()
    assert (run["id"], run["input"], run["workflow_id"]) == (response.json()["run_id"], {"a": 1}, made["id"])


BODIES: dict[str, tuple[dict[str, str], bytes, Any]] = {
    "an object": (JSON, b'{"a": [1, 2.5, null]}', {"a": [1, 2.5, None]}),
    "a bare number": (JSON, b"7", 7),
    "a suffixed content type": ({"Content-Type": "application/cloudevents+json"}, b'{"a": 1}', {"a": 1}),
    "a form": (
        {"Content-Type": "application/x-www-form-urlencoded"}, b"a=1&b=x+y&b=z",
        {"a": "1", "b": ["x y", "z"]},
    ),
    "a multipart form": (
        {"Content-Type": "multipart/form-data; boundary=x"},
        b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x--\r\n', {"a": "1"},
    ),
    "JSON that curl calls a form": (
        {"Content-Type": "application/x-www-form-urlencoded"}, b'{"a": 1}', {"a": 1},
    ),
    "nothing": (JSON, b"", {}), "nothing, of no type": ({}, b"", {}),
    "nothing, of another type": ({"Content-Type": "text/plain"}, b"", {}),
}  # fmt: skip


@pytest.mark.parametrize("case", BODIES)
async def test_an_event_may_be_any_json_or_a_form(api: Api, person: Person, case: str) -> None:
    headers, body, expected = BODIES[case]
    made = await create(person)
    response = await post(api, made["webhook_url"], content=body, headers=headers)
    run = (await person.key.get(response.headers["location"])).json()
    assert run["input"] == expected


REFUSED: dict[str, tuple[dict[str, str], bytes, tuple[int, str]]] = {
    "not JSON": (JSON, b"{", (400, "invalid_json")),
    "too deep": (JSON, b"[" * 101 + b"]" * 101, (400, "too_deep")),
    "a nesting bomb": (JSON, b"[" * 500_000, (400, "too_deep")),
    "not finite": (JSON, b'{"a": 1e999}', (400, "invalid_json")),
    "NaN": (JSON, b"[NaN]", (400, "invalid_json")),
    "an endless integer": (JSON, b"9" * 5000, (400, "number_out_of_range")),
    "a NUL": (JSON, b'"\\u0000"', (400, "invalid_text")),
    "a lone surrogate": (JSON, b'"\\ud800"', (400, "invalid_json")),
    "another type": ({"Content-Type": "text/csv"}, b"a,b", (415, "unsupported_media_type")),
    "packed": ({**JSON, "Content-Encoding": "gzip"}, b"\x1f\x8b", (415, "unsupported_content_encoding")),
    "over a mebibyte": (JSON, b'"' + b"x" * 1024 * 1024 + b'"', (413, "body_too_large")),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_is_not_an_event_is_refused_and_leaves_no_run(
    api: Api, person: Person, database: Database, case: str
) -> None:
    headers, body, expected = REFUSED[case]
    made = await create(person)
    assert problem(await post(api, made["webhook_url"], content=body, headers=headers)) == expected
    async with database.connection() as connection:
        cursor = await connection.execute("select 1 from runs where automation_id = %s", (made["id"],))
        assert await cursor.fetchone() is None


@pytest.mark.parametrize("token", ["x", "A" * 43, "..%2f..", "ü" * 20])
async def test_an_unknown_token_is_not_found(api: Api, token: str) -> None:
    assert problem(await post(api, f"/api/workflows/ingest/{token}", json={})) == (404, "not_found")


async def test_a_paused_workflow_takes_no_events(api: Api, person: Person) -> None:
    made = await create(person, status="paused")
    assert problem(await post(api, made["webhook_url"], json={})) == (409, "workflow_not_active")


@pytest.mark.parametrize("header", ["Idempotency-Key", "webhook-id"])
async def test_events_with_one_key_are_one_run_also_at_once_and_with_other_bodies(
    api: Api, person: Person, header: str
) -> None:
    made = await create(person)
    answers = await asyncio.gather(
        *(post(api, made["webhook_url"], json=n, headers={header: "key-1"}) for n in range(20))
    )
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["run_id"] for answer in answers}) == 1
    other = await post(api, made["webhook_url"], json=1, headers={header: "key-2"})
    assert other.json()["run_id"] != answers[0].json()["run_id"]


async def test_a_dedupe_expression_finds_repeats_and_null_is_never_one(api: Api, person: Person) -> None:
    made = await create(person, trigger={"type": "webhook", "dedupe": "trigger.order"})
    bodies = [{"order": 7}, {"order": 7, "again": True}, {"order": 8}, {}, {}]
    runs = [(await post(api, made["webhook_url"], json=body)).json()["run_id"] for body in bodies]
    assert runs[0] == runs[1] and len(set(runs)) == 4


async def test_what_the_workflow_says_goes_before_what_the_sender_says(api: Api, person: Person) -> None:
    made = await create(person, trigger={"type": "webhook", "dedupe": "trigger.order"})
    events = [({"order": 7}, "m1"), ({"order": 7}, "m2"), ({"order": 8}, "m1"), ({}, "m3"), ({"a": 1}, "m3")]
    for header in ("Idempotency-Key", "webhook-id"):
        runs = [
            (await post(api, made["webhook_url"], json=body, headers={header: header + key})).json()["run_id"]
            for body, key in events
        ]
        assert runs[0] == runs[1] != runs[2] != runs[3] == runs[4]


async def test_keys_of_different_kinds_are_never_the_same(api: Api, person: Person) -> None:
    made = await create(person, trigger={"type": "webhook", "dedupe": "trigger.id"})
    bodies: list[Any] = [
        {"id": 1},
        {"id": "1"},
        {"id": True},
        {"id": "true"},
        {"id": {"a": 1}},
        {"id": '{"a":1}'},
    ]
    headers = [{}] * len(bodies) + [{"Idempotency-Key": "1"}, {"webhook-id": "1"}]
    sent = zip([*bodies, {}, {}], headers, strict=True)
    runs = [(await post(api, made["webhook_url"], json=b, headers=h)).json()["run_id"] for b, h in sent]
    assert len(set(runs)) == len(runs)


async def test_expressions_read_the_request_but_never_its_credentials(
    api: Api, person: Person, worker: None
) -> None:
    steps = [transform("seen", '{query: request.query.q, kind: request.headers."x-kind", all: request}')]
    made = await create(person, steps=steps)
    headers = {"X-Kind": "test", "Authorization": "Bearer canary", "X-Api-Key": "canary", "Cookie": "canary"}
    response = await post(api, f"{made['webhook_url']}?q=1&wait=20", json={}, headers=headers)
    output = response.json()["output"]
    assert (output["query"], output["kind"]) == ("1", "test")
    assert "canary" not in json.dumps(output)


async def test_wait_answers_with_the_finished_run(api: Api, person: Person, worker: None) -> None:
    made = await create(person, steps=[transform("twice", "[trigger, trigger]")])
    response = await post(api, f"{made['webhook_url']}?wait=20", json=4)
    assert response.status_code == 200
    assert (response.json()["status"], response.json()["output"]) == ("completed", [4, 4])


async def test_wait_answers_202_when_the_run_takes_longer(
    api: Api, person: Person, worker: None, receiver: Endpoint
) -> None:
    receiver.answer = lambda request: web.Response(status=503)
    steps = [webhook(receiver.url) | {"retry": {"max_attempts": 2, "initial_seconds": 30}}]
    made = await create(person, steps=steps)
    response = await post(api, f"{made['webhook_url']}?wait=1", json=4)
    assert response.status_code == 202 and response.json()["run_id"]


@pytest.mark.parametrize("wait", ["0", "31", "soon"])
async def test_wait_is_between_1_and_30_seconds(api: Api, person: Person, wait: str) -> None:
    made = await create(person)
    response = await post(api, f"{made['webhook_url']}?wait={wait}", json={})
    assert response.status_code == 400 and response.json()["errors"][0]["parameter"] == "wait"


async def test_a_run_by_hand_takes_its_input_as_the_trigger(api: Api, person: Person, worker: None) -> None:
    made = await create(person, trigger={"type": "manual"}, steps=[transform("out", "trigger.n")])
    response = await person.key.post(f"/api/workflows/{made['id']}/run?wait=20", json={"input": {"n": 5}})
    assert (response.json()["output"], response.json()["trigger"]) == (5, "manual")


async def test_cancelling_a_run_ends_it_and_says_where(
    api: Api, person: Person, worker: None, receiver: Endpoint
) -> None:
    receiver.answer = lambda request: web.Response(status=503)
    slow = webhook(receiver.url) | {"retry": {"max_attempts": 2, "initial_seconds": 60}}
    made = await create(person, steps=[transform("first", "'x'"), slow, transform("last", "'x'")])
    accepted = await post(api, made["webhook_url"], json={})

    async def backs_off() -> bool:
        return (await person.key.get(accepted.headers["location"])).json()["status"] == "waiting"

    await until(backs_off)
    run = (await person.key.post(f"{accepted.headers['location']}/cancel")).json()
    assert run["status"] == "cancelled" and run["completed_at"]
    assert [step["status"] for step in run["steps"]] == ["completed", "cancelled", "skipped"]
    again = (await person.key.post(f"{accepted.headers['location']}/cancel")).json()
    assert again == run


async def test_cancelling_a_run_that_no_worker_has_yet_ends_it_at_once(api: Api, person: Person) -> None:
    stranger = await api.person()
    waits = {"id": "wait", "type": "delay", "config": {"seconds": 3600}}
    made = await create(person, steps=[waits], concurrency={"limit": 1})
    first = await post(api, made["webhook_url"], json={})
    second = await post(api, made["webhook_url"], json={})
    path = f"{second.headers['location']}/cancel"
    assert problem(await stranger.key.post(path)) == (404, "not_found")
    assert (await person.key.post(path)).json()["status"] == "cancelled"
    assert (await person.key.post(f"{first.headers['location']}/cancel")).json()["status"] == "cancelled"


async def test_another_accounts_run_is_unknown(api: Api, person: Person) -> None:
    made, stranger = await create(person), await api.person()
    accepted = await post(api, made["webhook_url"], json={})
    assert problem(await stranger.key.get(accepted.headers["location"])) == (404, "not_found")
