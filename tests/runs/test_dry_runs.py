"""POST /api/workflows/{id}/test."""

from typing import Any
from uuid import uuid4

import pytest

from database import Database
from models.errors import DomainError
from tests.api_server import Api, Person, running
from tests.automations.engine import Endpoint, transform, webhook
from tests.runs.workflows import create, finish, problem, statuses

LOOK = {"id": "look", "type": "ip_lookup", "config": {"field": "trigger.ip"}}
NOT_COMPARED = ("id", "started_at", "completed_at", "duration_ms", "attempt_started_at")


async def dry_run(person: Person, workflow: str, payload: Any = None, **body: Any) -> dict[str, Any]:
    response = await person.key.post(f"/api/workflows/{workflow}/test", json={"input": payload, **body})
    assert response.status_code == 200, response.text
    return response.json()


async def test_a_dry_run_is_the_run_object_of_a_run_that_never_was(
    person: Person, receiver: Endpoint, database: Database
) -> None:
    workflow = await create(person, [transform("a", "trigger.n"), webhook(receiver.url, body="{{ a }}")])
    run = await dry_run(person, workflow, {"n": 4})
    assert (run["test"], run["status"], run["trigger"], run["input"]) == (
        True,
        "completed",
        "manual",
        {"n": 4},
    )
    assert (run["workflow_id"], run["workflow_version"], run["credits_used"]) == (workflow, 1, 0)
    assert run["steps"][1]["input"]["body"] == 4
    assert run["output"] == {"status": 200, "headers": {}, "body": None, "sample": True}
    assert receiver.requests == []
    assert problem(await person.key.get(f"/api/workflows/runs/{run['id']}")) == (404, "not_found")
    async with database.connection() as connection:
        cursor = await connection.execute("select 1 from runs where automation_id = %s", (workflow,))
        assert await cursor.fetchone() is None


async def test_a_dry_run_does_what_a_real_one_does(person: Person, worker: None) -> None:
    steps = [
        transform("names", "trigger.people[].name"),
        {"id": "if", "type": "condition", "config": {"expression": "length(names) > `1`", "then": ["each"]}},
        transform("each", "sum(item.age)", for_each="trigger.people", on_error="continue"),
        {"id": "wait", "type": "delay", "config": {"until": "2026-01-01T00:00:00Z"}},
        {**LOOK, "config": {"value": "10.0.0.1"}},
        transform("bad", "sum(names)") | {"on_error": ["mend"]},
        transform("mend", "[look.ip_address, steps.bad.error.code]"),
        transform("end", "abs(names)"),
        transform("never", "'x'"),
    ]
    workflow = await create(person, steps)
    people = {"people": [{"name": "a", "age": 1}, {"name": "b", "age": [2]}]}
    real, dry = await finish(person, workflow, people), await dry_run(person, workflow, people)
    assert (real["items_total"], real["items_failed"]) == (2, 1)
    assert real["status"] == "failed" and statuses(real)["mend"] == "completed"
    for run in (real, dry):
        for thing in (run, *run["steps"]):
            for name in NOT_COMPARED[1:]:
                thing.pop(name, None)
        for report in run["steps"][4]["output"]["providers"]:
            report.pop("ms")
    assert {**real, "id": "", "test": True, "queued_at": None} == {**dry, "id": ""}


async def test_a_dry_run_can_show_all_that_a_step_reads(person: Person) -> None:
    workflow = await create(person, [transform("a", "'first'"), transform("b", "@")])
    run = await dry_run(person, workflow, 4)
    assert (run["status"], run["output"]["trigger"], run["output"]["a"]) == ("completed", 4, "first")
    assert list(run["output"]["steps"]) == ["a"]


async def test_other_steps_can_be_tried(person: Person) -> None:
    workflow = await create(person, [transform("a", "'stored'")])
    run = await dry_run(person, workflow, steps=[transform("b", "'tried'")])
    assert (run["output"], statuses(run)) == ("tried", {"b": "completed"})
    assert (await person.key.get(f"/api/workflows/{workflow}")).json()["version"] == 1


@pytest.mark.parametrize(
    ("steps", "error"),
    [
        ([transform("a", "nobody.x")], ("/steps/0/config/expression", "unknown_reference")),
        ([transform("a", "foo(")], ("/steps/0/config/expression", "bad_expression")),
        ([webhook("https://e.com/{{ secrets.NONE }}")], ("/steps/0/config/url", "unknown_secret")),
        ([{"id": "a", "type": "transform"}], ("/steps/0/config", "required")),
        (["a"], ("/steps/0", "wrong_type")),
        ("a", ("/steps", "wrong_type")),
    ],
)
async def test_other_steps_are_validated_like_those_of_a_workflow(
    person: Person, steps: Any, error: tuple[str, str]
) -> None:
    workflow = await create(person)
    response = await person.key.post(f"/api/workflows/{workflow}/test", json={"steps": steps})
    assert response.status_code == 400
    assert [(found["pointer"], found["code"]) for found in response.json()["errors"]] == [error]


async def test_the_names_of_secrets_are_known_and_their_values_are_not_used(person: Person) -> None:
    name = f"KEY_{uuid4().hex}"
    await person.key.post("/api/workflows/secrets", json={"name": name, "value": "canary"})
    steps = [webhook("https://example.com", headers={"X-Key": "{{ secrets." + name + " }}"})]
    response = await person.key.post(f"/api/workflows/{await create(person, steps)}/test", json={})
    assert response.json()["steps"][0]["input"]["headers"] == {"X-Key": "***"}
    assert "canary" not in response.text


async def test_a_workflow_that_is_not_active_can_be_tried(person: Person) -> None:
    workflow = await create(person, [transform("a", "'x'")], status="draft")
    assert (await dry_run(person, workflow))["status"] == "completed"


async def test_a_lookup_is_answered_from_the_data_of_this_machine(person: Person) -> None:
    workflow = await create(person, [LOOK])
    answer = (await dry_run(person, workflow, {"ip": "193.0.6.139"}))["output"]
    assert answer["location"]["city"] == "Amsterdam"
    assert answer["sources"]["location.city"] == ["dbip"]


async def test_what_is_not_of_the_kind_fails_as_in_a_real_run(person: Person, worker: None) -> None:
    workflow = await create(person, [LOOK])
    dry = await dry_run(person, workflow, {"ip": "nowhere"})
    real = await finish(person, workflow, {"ip": "nowhere"})
    assert dry["status"] == real["status"] == "failed"
    assert (dry["error"], dry["steps"][0]["error"]) == (real["error"], real["steps"][0]["error"])


VALUES = {
    "breach": "ada@example.com", "email": "ada@example.com", "domain": "example.com",
    "company": "Example Bank plc", "username": "octocat", "websearch": "Ada Lovelace",
    "darkweb": "example.com", "phone": "+14155552671",
}  # fmt: skip


@pytest.mark.parametrize("kind", VALUES)
async def test_a_lookup_costs_nothing_and_fails_where_no_source_could_be_asked(
    api: Api, person: Person, kind: str
) -> None:
    balance = (await person.key.get("/api/credits")).json()["balance"]
    step = {"id": "look", "type": f"{kind}_lookup", "config": {"value": VALUES[kind]}}
    run = await dry_run(person, await create(person), steps=[step])
    assert run["steps"][0]["input"] == VALUES[kind]
    assert (await person.key.get("/api/credits")).json()["balance"] == balance
    try:
        await api.services.lookups.lookup(kind, VALUES[kind])
        assert run["status"] == "completed" and "sample" not in run["output"]
    except DomainError as refused:
        assert run["error"]["code"] == refused.code == "no_provider"


async def test_a_dry_run_asks_nobody(api: Api, person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = api.services.settings.model_copy(update={"local_only": False})
    flights: list[str] = []

    def flight(_: object, source: Any, query: object) -> None:
        flights.append(source.spec.name)
        raise AssertionError("a source is asked")

    monkeypatch.setattr("providers.lookup.source_fetcher.SourceFetcher._join_flight", flight)
    async with running(settings, local_only=False) as open_api:
        client = await open_api.client(Authorization=f"Bearer {person.secret}")
        workflow = await create(person)
        for kind, value in (("ip", "8.8.8.8"), ("domain", "example.com"), ("company", "Example Bank plc")):
            step = {"id": "look", "type": f"{kind}_lookup", "config": {"value": value}}
            response = await client.post(f"/api/workflows/{workflow}/test", json={"steps": [step]})
            output = response.json()["output"]
            assert output["sample"] is True
            assert "sample" in {source for sources in output["sources"].values() for source in sources}
    assert flights == []


async def test_another_accounts_workflow_cannot_be_tried(api: Api, person: Person) -> None:
    stranger = await api.person()
    response = await stranger.key.post(f"/api/workflows/{await create(person)}/test", json={})
    assert problem(response) == (404, "not_found")


async def test_an_input_that_the_workflow_does_not_take_is_refused(person: Person) -> None:
    schema = {"type": "object", "required": ["ip"]}
    workflow = await create(person, input_schema=schema)
    response = await person.key.post(f"/api/workflows/{workflow}/test", json={"input": {}})
    assert response.status_code == 400
    assert response.json()["errors"][0]["pointer"] == "/input/ip"
    assert (await dry_run(person, workflow, {"ip": "8.8.8.8"}))["status"] == "completed"


async def test_a_key_that_may_look_nothing_up_can_try_no_lookups(api: Api) -> None:
    person = await api.person(scopes=["workflows"])
    workflow = await create(person)
    response = await person.key.post(f"/api/workflows/{workflow}/test", json={"steps": [LOOK]})
    assert problem(response) == (403, "insufficient_scope")


async def test_a_mock_is_the_output_of_its_step_and_is_marked(person: Person) -> None:
    workflow = await create(person, [{**LOOK, "id": "a-b"}, transform("out", 'trigger.ip && "a-b".risk')])
    run = await dry_run(person, workflow, {"ip": "8.8.8.8"}, mocks={"a-b": {"risk": 9}})
    assert run["output"] == 9
    assert [step.get("mocked") for step in run["steps"]] == [True, None]


NAP = {"id": "nap", "type": "delay", "config": {"seconds": 1}}
DECIDES = {"id": "if", "type": "condition", "config": {"expression": "trigger"}}
EACH = {**LOOK, "for_each": "trigger", "config": {"field": "item"}}


@pytest.mark.parametrize(
    ("mocks", "code"),
    [
        pytest.param({"lok": 1}, "unknown_step", id="no such step"),
        pytest.param({"a/b~": 1}, "unknown_step", id="no id of a step"),
        pytest.param({"nap": {"until": None}}, "not_allowed", id="of a delay"),
        pytest.param({"if": True}, "wrong_type", id="of a condition"),
        pytest.param({"if": {"result": 1}}, "wrong_type", id="of a condition with a number"),
        pytest.param({"look": {}}, "wrong_type", id="of a step over items"),
    ],
)
async def test_a_mock_that_no_step_comes_to_is_refused(
    person: Person, mocks: dict[str, Any], code: str
) -> None:
    workflow = await create(person, [NAP, DECIDES, EACH])
    response = await person.key.post(f"/api/workflows/{workflow}/test", json={"mocks": mocks})
    [name] = mocks
    [error] = response.json()["errors"]
    pointer = f"/mocks/{name.replace('~', '~0').replace('/', '~1')}"
    assert (response.status_code, error["pointer"], error["code"]) == (400, pointer, code)
    assert ("Did you mean look?" in error["message"]) == (name == "lok")


async def test_expressions_read_the_request_without_its_credentials(person: Person) -> None:
    workflow = await create(person, [transform("seen", "request")], trigger={"type": "webhook"})
    request = {"headers": {"X-Shop": "1", "Authorization": "Bearer x"}, "query": {"page": "2"}}
    run = await dry_run(person, workflow, request=request)
    assert run["output"] == {"headers": {"x-shop": "1"}, "query": {"page": "2"}}


REFUSED = {
    "a private address": {"url": "http://10.0.0.1/"},
    "a scheme": {"url": "ftp://example.com/"},
    "a port": {"url": "https://example.com:22/"},
    "a header": {"url": "https://example.com/", "headers": {"X": "{{ trigger }}"}},
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_request_that_cannot_be_sent_fails_as_in_a_real_run(
    person: Person, worker: None, case: str
) -> None:
    url, payload = REFUSED[case]["url"], "two\nlines"
    config = {**REFUSED[case], "url": "{{ '" + url + "' }}"}
    workflow = await create(person, [{"id": "call", "type": "webhook", "config": config}])
    dry, real = await dry_run(person, workflow, payload), await finish(person, workflow, payload)
    assert real["status"] == "failed"
    assert (dry["status"], dry["error"]) == (real["status"], real["error"])


async def test_a_url_that_holds_a_secret_is_not_judged_by_its_mask(person: Person) -> None:
    name = f"HOST_{uuid4().hex}"
    await person.key.post("/api/workflows/secrets", json={"name": name, "value": "example.com"})
    run = await dry_run(person, await create(person, [webhook("https://{{ secrets." + name + " }}/")]))
    assert (run["status"], run["steps"][0]["input"]["url"]) == ("completed", "https://***/")


@pytest.mark.parametrize("status", ["active", "paused", "deleted"])
async def test_a_workflow_as_a_step_fails_as_in_a_real_run(person: Person, worker: None, status: str) -> None:
    child = await create(person, [transform("a", "trigger")], input_schema={"type": "integer"})
    step = {"id": "child", "type": "workflow", "config": {"workflow_id": child, "input": "{{ trigger }}"}}
    workflow = await create(person, [step])
    if status == "paused":
        await person.key.patch(f"/api/workflows/{child}", json={"status": "paused"})
    if status == "deleted":
        await person.key.delete(f"/api/workflows/{child}")
    dry, real = await dry_run(person, workflow, "text"), await finish(person, workflow, "text")
    assert real["status"] == "failed" and dry["error"] == real["error"]
    if status == "active":
        assert (await dry_run(person, workflow, 4))["output"] == {"sample": True}
