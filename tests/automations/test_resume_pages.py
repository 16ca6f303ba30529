"""The page of a resume URL: it asks, and answers once; to look at it does nothing."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import pytest

from database import Database
from models.runs import step_answers
from tests.api_server import Api, Person
from tests.automations.engine import Endpoint, requested, transform, until, webhook
from tests.automations.workflows import create, problem

JSONObject = dict[str, Any]
SCHEMA = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean", "title": "Do you approve?"},
        "why": {"type": "string", "minLength": 3, "maxLength": 80},
    },
    "required": ["approved"],
}
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def wait(**config: Any) -> JSONObject:
    return {"id": "approval", "name": "Approval", "type": "wait", "config": config}


ASKED = wait(
    title="Pay {{ trigger.amount }} to {{ trigger.name }}?",
    message="Asked for by {{ trigger.by }}\nat {{ run.queued_at }}",
    input_schema=SCHEMA,
)


async def begin(person: Person, steps: list[JSONObject], given: Any = None) -> tuple[str, str]:
    """A run that waits, and the path of its resume URL."""
    made = await create(person, name="Payments", steps=steps)
    answer = await person.key.post(f"/api/workflows/{made['id']}/run", json={"input": given})
    run_id = answer.json()["run_id"]
    view = await become(person, run_id, "waiting")
    return run_id, urlsplit(view["resume_urls"]["approval"]).path


async def become(person: Person, run_id: str, status: str) -> JSONObject:
    async def look() -> JSONObject | None:
        view = (await person.key.get(f"/api/workflows/runs/{run_id}")).json()
        return view if view["status"] == status else None

    return await until(look)


async def see(api: Api, path: str) -> httpx.Response:
    return await api.http.get(path, headers=HTML)


async def submit(api: Api, path: str, **form: str) -> httpx.Response:
    headers = HTML | {"Content-Type": "application/x-www-form-urlencoded"}
    return await api.http.post(f"{path}/form", content=urlencode(form), headers=headers)


async def test_the_page_shows_what_the_step_asks_as_text_with_a_field_for_each_property(
    api: Api, person: Person, worker: None
) -> None:
    given = {"amount": 12, "name": "<b>Ada</b>", "by": "Grace"}
    _, path = await begin(person, [ASKED], given)
    page = await see(api, path)
    assert page.status_code == 200 and page.headers["content-type"] == "text/html; charset=utf-8"
    assert "Payments" in page.text and "Pay 12 to &lt;b&gt;Ada&lt;/b&gt;?" in page.text
    assert "Asked for by Grace\nat 20" in page.text
    assert "Do you approve?" in page.text and "why (optional)" in page.text


async def test_the_form_resumes_the_run_once_with_what_it_was_given(
    api: Api, person: Person, worker: None
) -> None:
    run_id, path = await begin(person, [ASKED, transform("after", "approval.body")], {})
    done = await submit(api, path, field0="0", field1="All fine")
    assert done.status_code == 200 and "Thank you" in done.text
    view = await become(person, run_id, "completed")
    assert view["output"] == {"approved": True, "why": "All fine"}
    for again in (await submit(api, path, field0="1"), await see(api, path)):
        assert again.status_code == 409 and "answered before" in again.text


async def test_the_step_shows_what_was_asked(api: Api, person: Person, worker: None) -> None:
    run_id, path = await begin(person, [ASKED], {"amount": 12, "name": "Ada", "by": "Grace"})
    await submit(api, path, field0="0")
    view = await become(person, run_id, "completed")
    assert view["steps"][0]["input"]["title"] == "Pay 12 to Ada?"


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({}, "This field is required."),
        ({"field0": "0", "field1": "ab"}, "At least 3 characters are needed."),
        ({"field0": "7"}, "Choose one of the answers."),
    ],
    ids=["nothing", "by the schema", "no choice"],
)
async def test_an_answer_that_does_not_fit_brings_the_form_again_and_spends_nothing(
    api: Api, person: Person, worker: None, form: dict[str, str], said: str
) -> None:
    run_id, path = await begin(person, [ASKED], {})
    page = await submit(api, path, **form)
    assert page.status_code == 400 and said in page.text and "<form" in page.text
    await become(person, run_id, "waiting")
    assert (await submit(api, path, field0="0")).status_code == 200


async def test_to_open_the_page_does_nothing(
    api: Api, person: Person, worker: None, database: Database
) -> None:
    run_id, path = await begin(person, [ASKED], {})
    await asyncio.gather(*(see(api, path) for _ in range(3)))
    head = await api.http.head(path, headers=HTML)
    assert (head.status_code, head.content) == (200, b"")
    for refused in (await api.http.get(f"{path}/form"), await api.http.put(path)):
        assert refused.status_code == 405
    async with database.connection() as connection:
        assert await step_answers.find(connection, run_id, "approval") is None  # pyright: ignore[reportArgumentType]


async def test_the_page_is_stored_framed_and_told_nowhere(api: Api, person: Person, worker: None) -> None:
    _, path = await begin(person, [ASKED], {})
    page = await see(api, path)
    refused = await see(api, "/api/workflows/resume/x")
    for answer in (page, refused, await submit(api, path)):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-frame-options"] == "DENY"
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "form-action 'self'" in policy
        assert "frame-ancestors 'none'" in policy and "script-src" not in policy


async def test_an_unknown_address_has_a_page_that_says_so(api: Api) -> None:
    for answer in (
        await see(api, "/api/workflows/resume/x"),
        await submit(api, "/api/workflows/resume/x", field0="0"),
    ):
        assert answer.status_code == 404 and "leads to no question" in answer.text


async def test_programs_get_json(api: Api, person: Person, worker: None) -> None:
    run_id, path = await begin(person, [ASKED], {"amount": 1, "name": "Ada", "by": "G"})
    shown = await api.http.get(path, headers={"Accept": "application/json"})
    assert shown.json() | {"message": ""} == {
        "run_id": run_id, "workflow_name": "Payments", "step": "approval", "title": "Pay 1 to Ada?",
        "message": "", "input_schema": SCHEMA,
    }  # fmt: skip
    unknown = await api.http.get("/api/workflows/resume/x", headers={"Accept": "application/json"})
    assert problem(unknown) == (404, "not_found")
    await api.http.post(path, json={"approved": True})
    over = await api.http.get(path, headers={"Accept": "application/json"})
    assert problem(over) == (409, "resume_over")


async def test_a_step_that_asks_nothing_has_a_box_for_json_that_may_stay_empty(
    api: Api, person: Person, worker: None
) -> None:
    run_id, path = await begin(person, [wait(), transform("after", "approval.resumed")])
    page = await see(api, path)
    assert "<h1>Approval</h1>" in page.text and "<textarea" in page.text
    assert (await submit(api, path, answer="{")).status_code == 400
    assert (await submit(api, path)).status_code == 200
    assert (await become(person, run_id, "completed"))["output"] is True


async def test_a_page_that_is_opened_before_its_step_begins_says_so_and_takes_an_answer(
    api: Api, person: Person, worker: None, receiver: Endpoint
) -> None:
    steps = [webhook(f"{receiver.url}/held"), ASKED, transform("after", "approval.body.approved")]
    made = await create(person, steps=steps)
    run_id = (await person.key.post(f"/api/workflows/{made['id']}/run", json={"input": {}})).json()["run_id"]
    await requested(receiver, 1)
    view = (await person.key.get(f"/api/workflows/runs/{run_id}")).json()
    path = urlsplit(view["resume_urls"]["approval"]).path
    assert "has not come to this question yet" in (await see(api, path)).text
    assert (await submit(api, path, field0="1")).status_code == 200
    receiver.open.set()
    assert (await become(person, run_id, "completed"))["output"] is False


async def test_a_title_whose_expression_has_no_value_fails_the_step(person: Person, worker: None) -> None:
    made = await create(person, steps=[wait(title="{{ sum(trigger) }}")])
    answer = await person.key.post(f"/api/workflows/{made['id']}/run?wait=30", json={"input": "x"})
    assert answer.json()["steps"][0]["error"]["code"] == "wrong_type"


async def test_a_form_of_another_type_is_refused(api: Api, person: Person, worker: None) -> None:
    _, path = await begin(person, [ASKED], {})
    answer = await api.http.post(f"{path}/form", json={"field0": "0"}, headers=HTML)
    assert problem(answer) == (415, "unsupported_media_type")


async def test_what_was_asked_goes_with_the_run(
    api: Api, person: Person, worker: None, database: Database
) -> None:
    run_id, path = await begin(person, [ASKED], {})
    await submit(api, path, field0="0")
    await become(person, run_id, "completed")
    async with database.connection() as connection:
        await step_answers.purge(connection)
        cursor = await connection.execute("select 1 from run_prompts where run_id = %s", (run_id,))
        assert await cursor.fetchone() is None
