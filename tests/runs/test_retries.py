"""POST /api/workflows/runs/{id}/retry."""

from typing import Any
from uuid import uuid4

import pytest
from aiohttp import web

from database import Database
from tests.api_server import Api, Person
from tests.automations.engine import Endpoint, transform, webhook
from tests.runs.conftest import Follow
from tests.runs.workflows import create, finish, problem, start, statuses


def refusing_once(path: str) -> Any:
    """Answers 400 to the first request for `path`, 200 to all else."""
    refused: list[str] = []

    def answer(request: dict[str, Any]) -> web.Response:
        if request["path"] == path and not refused:
            refused.append(path)
            return web.json_response({}, status=400)
        return web.json_response({"path": request["path"]})

    return answer


def paths(receiver: Endpoint) -> list[str]:
    return [request["path"] for request in receiver.requests]


async def retried(person: Person, follow: Follow, run_id: str, **body: Any) -> dict[str, Any]:
    response = await person.key.post(f"/api/workflows/runs/{run_id}/retry", json=body)
    assert response.status_code == 202, response.text
    return await follow(response.json()["run_id"])


async def test_a_retry_is_a_new_run_that_does_only_what_was_not_finished(
    person: Person, receiver: Endpoint, worker: None, follow: Follow
) -> None:
    receiver.answer = refusing_once("/b")
    steps = [webhook(f"{receiver.url}/{name}", name) for name in "abc"]
    failed = await finish(person, await create(person, steps), {"n": 1})
    assert statuses(failed) == {"a": "completed", "b": "failed", "c": "skipped"}
    response = await person.key.post(f"/api/workflows/runs/{failed['id']}/retry", json={})
    accepted = response.json()
    assert (response.status_code, accepted["status"]) == (202, "queued")
    assert response.headers["location"] == f"/api/workflows/runs/{accepted['run_id']}"
    assert accepted["restarted_from"] == failed["id"] != accepted["run_id"]
    run = await follow(accepted["run_id"])
    assert (run["status"], run["restarted_from"]) == ("completed", failed["id"])
    assert statuses(run) == {"a": "completed", "b": "completed", "c": "completed"}
    assert (run["input"], run["trigger"], run["output"]) == ({"n": 1}, "manual", output_of(run, "c"))
    assert paths(receiver) == ["/a", "/b", "/b", "/c"]
    assert run["steps"][0] == failed["steps"][0]
    assert (await person.key.get(f"/api/workflows/runs/{failed['id']}")).json() == failed


def output_of(run: dict[str, Any], step_id: str) -> Any:
    return next(step["output"] for step in run["steps"] if step["id"] == step_id)


async def test_the_steps_of_a_retry_read_what_was_finished(
    person: Person, receiver: Endpoint, worker: None, follow: Follow
) -> None:
    receiver.answer = refusing_once("/b")
    steps = [
        transform("a", "trigger.n"),
        webhook(f"{receiver.url}/b", "b"),
        transform("c", "[a, steps.a.status, request.headers.x]"),
    ]
    failed = await finish(person, await create(person, steps), {"n": 7})
    run = await retried(person, follow, failed["id"])
    assert run["output"] == [7, "completed", None]


async def test_a_retry_decides_skipped_steps_anew(
    person: Person, receiver: Endpoint, worker: None, follow: Follow
) -> None:
    receiver.answer = refusing_once("/b")
    steps = [
        webhook(f"{receiver.url}/b", "b", **{"success": "2xx"}) | {"on_error": ["mend"]},
        transform("mend", "'mended'"),
        transform("broken", "sum(trigger)"),
    ]
    failed = await finish(person, await create(person, steps), "text")
    assert statuses(failed) == {"b": "failed", "mend": "completed", "broken": "failed"}
    run = await retried(person, follow, failed["id"])
    assert statuses(run) == {"b": "completed", "mend": "skipped", "broken": "failed"}


async def test_a_retry_from_a_step_does_it_and_all_that_needs_it_again(
    person: Person, receiver: Endpoint, worker: None, follow: Follow
) -> None:
    steps = [
        webhook(f"{receiver.url}/a", "a"),
        webhook(f"{receiver.url}/b", "b"),
        webhook(f"{receiver.url}/aside", "aside") | {"needs": ["a"]},
        webhook(f"{receiver.url}/c", "c") | {"needs": ["b"]},
    ]
    done = await finish(person, await create(person, steps))
    receiver.requests.clear()
    run = await retried(person, follow, done["id"], from_step="b")
    assert run["status"] == "completed"
    assert paths(receiver) == ["/b", "/c"]


async def test_a_retry_with_another_version_does_again_what_has_changed(
    person: Person, receiver: Endpoint, worker: None, follow: Follow
) -> None:
    steps = [webhook(f"{receiver.url}/{name}", name) for name in "abc"]
    workflow = await create(person, steps)
    done = await finish(person, workflow)
    steps[1] = webhook(f"{receiver.url}/other", "b")
    await person.key.patch(f"/api/workflows/{workflow}", json={"steps": [*steps, transform("d", "'new'")]})
    receiver.requests.clear()
    run = await retried(person, follow, done["id"], version=2)
    assert (run["status"], run["workflow_version"], run["output"]) == ("completed", 2, "new")
    assert paths(receiver) == ["/other", "/c"]


async def test_a_retry_runs_the_version_that_the_run_ran(
    person: Person, receiver: Endpoint, worker: None, follow: Follow
) -> None:
    receiver.answer = refusing_once("/a")
    workflow = await create(person, [webhook(f"{receiver.url}/a", "a")])
    failed = await finish(person, workflow)
    await person.key.patch(f"/api/workflows/{workflow}", json={"steps": []})
    run = await retried(person, follow, failed["id"])
    assert (run["workflow_version"], statuses(run)) == (1, {"a": "completed"})


async def test_what_was_finished_is_charged_once(
    api: Api, receiver: Endpoint, worker: None, follow: Follow, person: Person
) -> None:
    receiver.answer = refusing_once("/b")
    look_up = {"id": "look", "type": "phone_lookup", "config": {"value": "+14155552671"}}
    steps = [look_up, webhook(f"{receiver.url}/b", "b")]
    failed = await finish(person, await create(person, steps))
    balance = (await person.key.get("/api/credits")).json()["balance"]
    assert failed["credits_used"] == 1
    run = await retried(person, follow, failed["id"])
    assert (run["status"], run["credits_used"]) == ("completed", 0)
    assert run["steps"][0]["output"] == failed["steps"][0]["output"]
    assert (await person.key.get("/api/credits")).json()["balance"] == balance


async def test_a_step_over_items_keeps_those_that_it_has_done(
    person: Person, receiver: Endpoint, worker: None, follow: Follow
) -> None:
    receiver.answer = refusing_once("/2")
    each = webhook(receiver.url + "/{{ item }}", "each") | {"for_each": "trigger", "max_concurrency": 1}
    failed = await finish(person, await create(person, [each]), [1, 2, 3])
    assert statuses(failed) == {"each": "failed"}
    run = await retried(person, follow, failed["id"])
    assert [output["body"]["path"] for output in run["output"]] == ["/1", "/2", "/3"]
    assert sorted(paths(receiver)) == ["/1", "/2", "/2", "/3"]


async def test_a_retry_takes_over_how_many_items_failed_and_does_those_again_that_failed_their_step(
    person: Person, receiver: Endpoint, worker: None, follow: Follow
) -> None:
    receiver.answer = refusing_once("/2")
    sums = transform("sums", "sum(item)", for_each="[`1`, [`2`]]", on_error="continue")
    each = webhook(receiver.url + "/{{ item }}", "each") | {"for_each": "trigger", "on_error": "continue"}
    workflow = await create(person, [sums, each | {"on_items": {"fail_if": "any"}}])
    failed = await finish(person, workflow, [1, 2])
    assert failed["error"]["code"] == "items_failed"
    run = await retried(person, follow, failed["id"])
    shown = {step["id"]: (step["items_total"], step["items_failed"]) for step in run["steps"]}
    assert (run["status"], shown) == ("completed", {"sums": (2, 1), "each": (2, 0)})
    assert sorted(paths(receiver)) == ["/1", "/2", "/2"]


async def test_a_cancelled_run_can_be_retried(
    person: Person, receiver: Endpoint, worker: None, follow: Follow
) -> None:
    steps = [webhook(f"{receiver.url}/a", "a"), {"id": "wait", "type": "delay", "config": {"days": 3}}]
    run_id = await start(person, await create(person, steps))
    await follow(run_id, "waiting")
    await person.key.post(f"/api/workflows/runs/{run_id}/cancel")
    response = await person.key.post(f"/api/workflows/runs/{run_id}/retry", json={})
    run = await follow(response.json()["run_id"], "waiting")
    assert statuses(run) == {"a": "completed", "wait": "waiting"}
    assert paths(receiver) == ["/a"]


async def test_a_body_is_not_needed(person: Person, receiver: Endpoint, worker: None, follow: Follow) -> None:
    receiver.answer = refusing_once("/a")
    failed = await finish(person, await create(person, [webhook(f"{receiver.url}/a", "a")]))
    response = await person.key.post(f"/api/workflows/runs/{failed['id']}/retry")
    assert (await follow(response.json()["run_id"]))["status"] == "completed"


async def test_a_repeat_with_the_same_key_is_the_same_retry(
    person: Person, receiver: Endpoint, worker: None
) -> None:
    failed = await finish(person, await create(person, [transform("a", "sum(trigger)")]))
    key = {"Idempotency-Key": uuid4().hex}
    answers = [
        await person.key.post(f"/api/workflows/runs/{failed['id']}/retry", json={}, headers=key)
        for _ in range(2)
    ]
    assert answers[0].json() == answers[1].json()
    assert answers[1].headers["idempotent-replayed"] == "true"


async def test_a_run_that_goes_on_is_not_retried(
    api: Api, person: Person, worker: None, follow: Follow
) -> None:
    run_id = await start(
        person, await create(person, [{"id": "wait", "type": "delay", "config": {"days": 1}}])
    )
    await follow(run_id, "waiting")
    response = await person.key.post(f"/api/workflows/runs/{run_id}/retry", json={})
    assert problem(response) == (409, "run_not_ended")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, (409, "nothing_to_retry")),
        ({"version": 1}, (409, "nothing_to_retry")),
        ({"from_step": "nobody"}, ("/from_step", "unknown_step")),
        ({"version": 9}, ("/version", "unknown_version")),
        ({"version": 2**63}, ("/version", "unknown_version")),
        ({"version": True}, ("/version", "wrong_type")),
        ({"version": "1"}, ("/version", "wrong_type")),
        ({"step": "a"}, ("/step", "unknown_field")),
    ],
)
async def test_a_retry_of_nothing_is_refused(
    person: Person, worker: None, body: dict[str, Any], expected: tuple[Any, str]
) -> None:
    done = await finish(person, await create(person, [transform("a", "'x'")]))
    response = await person.key.post(f"/api/workflows/runs/{done['id']}/retry", json=body)
    if response.status_code == 409:
        assert problem(response) == expected
    else:
        [error] = response.json()["errors"]
        assert (response.status_code, (error["pointer"], error["code"])) == (400, expected)


@pytest.mark.parametrize("change", ["paused", "deleted"])
async def test_a_workflow_that_takes_no_runs_takes_no_retries(
    person: Person, worker: None, change: str
) -> None:
    workflow = await create(person, [transform("a", "'x'")])
    done = await finish(person, workflow)
    if change == "paused":
        await person.key.patch(f"/api/workflows/{workflow}", json={"status": "paused"})
    else:
        await person.key.delete(f"/api/workflows/{workflow}")
    response = await person.key.post(f"/api/workflows/runs/{done['id']}/retry", json={"from_step": "a"})
    assert problem(response) == (409, "workflow_not_active")


async def test_retries_are_claimed_together_with_what_each_has_done(
    person: Person, receiver: Endpoint, database: Database, worker: None, follow: Follow
) -> None:
    steps = [transform("a", "trigger"), webhook(receiver.url + "/{{ a }}", "b"), transform("c", "a")]
    receiver.answer = lambda request: web.json_response({}, status=400)
    workflow = await create(person, steps)
    failed = [(await finish(person, workflow, n))["id"] for n in range(4)]
    receiver.answer = lambda request: web.json_response({})
    ids = [
        (await person.key.post(f"/api/workflows/runs/{run_id}/retry")).json()["run_id"] for run_id in failed
    ]
    assert [(await follow(run_id))["output"] for run_id in ids] == [0, 1, 2, 3]


async def test_only_who_may_look_up_retries_with_a_version_that_has_lookup_steps(
    api: Api, person: Person, worker: None
) -> None:
    created = await person.session.post("/api/keys", json={"name": "weak", "scopes": ["workflows"]})
    weak = await api.client(Authorization=f"Bearer {created.json()['key']}")
    look_up = {"id": "look", "type": "ip_lookup", "config": {"value": "not an IP address"}}
    made = await create(person, [look_up])
    failed = await finish(person, made, {})
    assert failed["status"] == "failed"
    await person.key.patch(f"/api/workflows/{made}", json={"steps": [transform("t", "trigger")]})
    path = f"/api/workflows/runs/{failed['id']}/retry"
    for body in ({}, {"version": 1}, {"from_step": "look"}):
        assert problem(await weak.post(path, json=body)) == (403, "insufficient_scope")
    assert (await weak.post(path, json={"version": 2})).status_code == 202
    assert (await person.key.post(path, json={"version": 1})).status_code == 202
