"""Steps that wait for somebody: resumed once, by whoever has the URL, also before they begin."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import UUID

import pytest

from models.runs import resume_tokens
from models.runs.resume_tokens import StepPosition
from sealing import Keyring
from tests.api_server import Api, Person
from tests.automations.approvals import become, begin, resume, shown, wait
from tests.automations.engine import Endpoint, requested, transform, webhook
from tests.automations.workflows import problem, wrong


@pytest.mark.executions("shift", "workflow", "turns")
async def test_a_run_waits_until_somebody_posts_and_goes_on_with_the_body(
    api: Api, person: Person, worker: None
) -> None:
    run_id = await begin(person, [wait(), transform("after", "approval.body.by")])
    view = await become(person, run_id, "waiting")
    assert [step["status"] for step in view["steps"]] == ["waiting", "pending"]
    answer = await resume(api, view["resume_urls"]["approval"], json={"by": "ada"})
    assert (answer.status_code, answer.json()["run_id"], answer.json()["step"]) == (202, run_id, "approval")
    view = await become(person, run_id, "completed")
    assert view["output"] == "ada" and view["resume_urls"] is None
    output = view["steps"][0]["output"]
    assert (output["resumed"], output["body"]) == (True, {"by": "ada"}) and output["at"].endswith("Z")


async def test_a_second_answer_is_refused_and_changes_nothing(api: Api, person: Person, worker: None) -> None:
    run_id = await begin(person, [wait("a"), wait("b"), transform("after", "[a.body, b.body]")])
    urls = (await shown(person, run_id))["resume_urls"]
    answers = await asyncio.gather(*(resume(api, urls["a"], json=n) for n in range(8)))
    assert sorted(answer.status_code for answer in answers) == [202] + 7 * [409]
    assert {problem(answer) for answer in answers if answer.status_code == 409} == {(409, "resume_over")}
    [won] = [n for n, answer in enumerate(answers) if answer.status_code == 202]
    await resume(api, urls["b"])
    view = await become(person, run_id, "completed")
    assert view["output"] == [won, None]
    assert problem(await resume(api, urls["b"], json=1)) == (409, "resume_over")


@pytest.mark.executions("shift", "workflow")
async def test_an_answer_that_comes_before_its_step_is_kept_for_it(
    api: Api, person: Person, worker: None, receiver: Endpoint
) -> None:
    steps = [webhook(f"{receiver.url}/held"), wait(), transform("after", "approval.body")]
    run_id = await begin(person, steps)
    await requested(receiver, 1)
    assert (
        await resume(api, (await shown(person, run_id))["resume_urls"]["approval"], json="early")
    ).is_success
    receiver.open.set()
    assert (await become(person, run_id, "completed"))["output"] == "early"


@pytest.mark.executions("shift", "workflow", "turns")
async def test_an_answer_reaches_a_run_that_is_busy_with_something_else(
    api: Api, person: Person, worker: None, receiver: Endpoint
) -> None:
    steps = [
        webhook(f"{receiver.url}/held"),
        {**wait(), "needs": []},
        {**webhook(f"{receiver.url}/after"), "id": "after", "needs": ["approval"]},
    ]
    run_id = await begin(person, steps)
    await requested(receiver, 1)
    await resume(api, (await shown(person, run_id))["resume_urls"]["approval"])
    await requested(receiver, 2)
    assert receiver.paths == ["/held", "/after"]
    receiver.open.set()
    await become(person, run_id, "completed")


async def test_a_webhook_step_may_send_the_url_and_the_run_never_shows_it(
    api: Api, person: Person, worker: None, receiver: Endpoint
) -> None:
    body = {"text": "Approve: {{ run.resume_urls.approval }}", "all": "{{ run.resume_urls }}"}
    run_id = await begin(
        person, [webhook(receiver.url, body=body), wait(), transform("after", "approval.body")]
    )
    await requested(receiver, 1)
    sent = json.loads(receiver.requests[0]["body"])
    url = sent["text"].removeprefix("Approve: ")
    view = await become(person, run_id, "waiting")
    assert url == view["resume_urls"]["approval"] == sent["all"]["approval"]
    assert view["steps"][0]["input"]["body"] == {"text": "Approve: ***", "all": {"approval": "***"}}
    await resume(api, url, json=True)
    view = await become(person, run_id, "completed")
    assert view["output"] is True and url.rpartition("/")[2] not in json.dumps(view["steps"][0])


async def test_a_body_that_does_not_meet_the_schema_spends_nothing(
    api: Api, person: Person, worker: None
) -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    run_id = await begin(person, [wait(input_schema=schema), transform("after", "approval.body.ok")])
    url = (await shown(person, run_id))["resume_urls"]["approval"]
    refused = await resume(api, url, json={"ok": "yes"})
    assert refused.status_code == 400 and wrong(refused) == {("/ok", "wrong_type")}
    assert (await resume(api, url, json={"ok": True})).status_code == 202
    assert (await become(person, run_id, "completed"))["output"] is True


@pytest.mark.executions("shift", "workflow")
@pytest.mark.parametrize(
    ("on_timeout", "status", "output"), [("fail", "failed", None), ("continue", "completed", False)]
)
async def test_a_wait_that_nobody_ends_ends_by_itself(
    api: Api, person: Person, worker: None, on_timeout: str, status: str, output: Any
) -> None:
    steps = [wait(timeout=0.3, on_timeout=on_timeout), transform("after", "approval.resumed")]
    run_id = await begin(person, steps)
    url = (await shown(person, run_id))["resume_urls"]["approval"]
    view = await become(person, run_id, status)
    assert view["output"] == output
    assert view["steps"][0]["error"] is None or view["steps"][0]["error"]["code"] == "wait_timeout"
    assert problem(await resume(api, url, json=1)) == (409, "resume_over")


@pytest.mark.executions("shift", "workflow")
async def test_a_run_that_was_cancelled_cannot_be_resumed(api: Api, person: Person, worker: None) -> None:
    run_id = await begin(person, [wait()])
    url = (await become(person, run_id, "waiting"))["resume_urls"]["approval"]
    await person.key.post(f"/api/workflows/runs/{run_id}/cancel")
    assert problem(await resume(api, url)) == (409, "resume_over")


async def test_a_wait_that_was_skipped_cannot_be_resumed(
    api: Api, person: Person, worker: None, receiver: Endpoint
) -> None:
    later = {"id": "later", "type": "delay", "config": {"hours": 1}}
    run_id = await begin(person, [{**wait(), "if": "false"}, webhook(receiver.url), later])
    view = await become(person, run_id, "waiting")
    assert problem(await resume(api, view["resume_urls"]["approval"])) == (409, "resume_over")


async def test_only_tokens_of_this_installation_open_anything(api: Api, person: Person, worker: None) -> None:
    run_id = await begin(person, [wait(), transform("t", "trigger")])
    url = (await become(person, run_id, "waiting"))["resume_urls"]["approval"]
    token = url.rpartition("/")[2]
    forged = resume_tokens.make_token(Keyring(["x" * 40]), StepPosition(UUID(run_id), 0))
    other = resume_tokens.make_token(api.services.keyring, StepPosition(UUID(run_id), 1))
    for wrong_token in (
        token[:-1],
        token[:-1] + ("A" if token[-1] != "A" else "B"),
        f"{token}=",
        f"{token}%3D%3D%3D%3D",
        f"{token[:8]}%20{token[8:]}",
        f"{token[:8]}!{token[8:]}",
        "x",
        "%00",
        forged,
        other,
    ):
        answer = await resume(api, url.replace(token, wrong_token))
        assert problem(answer) == (404, "not_found"), wrong_token


async def test_a_token_has_one_spelling(api: Api) -> None:
    keyring = api.services.keyring
    for number in range(64):
        token = resume_tokens.make_token(keyring, StepPosition(UUID(int=number * 2**100), number))
        assert resume_tokens.read_token(keyring, token) == StepPosition(UUID(int=number * 2**100), number)
        others = {token.replace("-", "+"), token.replace("_", "/"), f"{token}=", f"{token}\n", f" {token}"}
        assert [one for one in others - {token} if resume_tokens.read_token(keyring, one)] == []


SHOWN = transform("t", "run.resume_urls.approval")
MISSPELT = webhook("https://example.com", body="{{ run.resume_urls.approvl }}")


@pytest.mark.parametrize(
    ("step", "found"),
    [
        pytest.param(SHOWN, "resume_url_not_allowed", id="in-a-transform"),
        pytest.param(MISSPELT, "unknown_reference", id="of-no-wait"),
    ],
)
async def test_a_resume_url_is_refused_at_save_where_it_would_be_seen(
    person: Person, step: dict[str, Any], found: str
) -> None:
    document = {"name": "x", "steps": [step, wait()]}
    answer = await person.key.post("/api/workflows", json=document)
    assert answer.status_code == 400 and {code for _, code in wrong(answer)} == {found}
