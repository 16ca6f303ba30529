"""Steps that send an event to the webhooks of the account: once, however often their work is repeated."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import jsonschema_rs
import pytest

from database import Database
from models.events import alerts
from models.events.event_data import WorkflowAlert
from models.events.event_types import EVENT_TYPES
from models.identifiers import new_id
from tests.api_server import Api, Person
from tests.automations.engine import Endpoint, requested, transform, until, webhook
from tests.automations.workflows import create, post, problem, wrong

JSONObject = dict[str, Any]
TELL: JSONObject = {
    "id": "tell", "type": "emit", "config": {"event": "workflow.alert", "data": {"ip": "{{ trigger.ip }}"}}
}  # fmt: skip


async def listen(person: Person, url: str, *events: str) -> str:
    answer = await person.key.post("/api/webhooks", json={"url": url, "events": list(events)})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def finish(person: Person, workflow: JSONObject, given: Any = None, **headers: str) -> JSONObject:
    path = f"/api/workflows/{workflow['id']}/run?wait=30"
    answer = await person.key.post(path, json={"input": given}, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def alerts_of(database: Database, person: Person) -> list[JSONObject]:
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select id, data from events where account_id = %s and type = 'workflow.alert' order by id",
            (person.account.id,),
        )
        return await cursor.fetchall()


async def test_an_alert_reaches_each_webhook_that_asks_for_it_as_its_schema_says(
    person: Person, worker: None, receiver: Endpoint
) -> None:
    await listen(person, receiver.url + "/a", "workflow.alert")
    await listen(person, receiver.url + "/b", "workflow.*")
    await listen(person, receiver.url + "/c", "monitor.*")
    made = await create(person, steps=[TELL])
    view = await finish(person, made, {"ip": "8.8.8.8"})
    await requested(receiver, 2)
    sent = {request["path"]: json.loads(request["body"]) for request in receiver.requests}
    alerted = {path: event for path, event in sent.items() if event["event"] == "workflow.alert"}
    assert alerted.keys() == {"/a", "/b"} and alerted["/a"] == alerted["/b"]
    event = alerted["/a"]
    jsonschema_rs.validate(EVENT_TYPES["workflow.alert"].envelope_schema(), event)
    assert event["data"] == {
        "run_id": view["id"], "workflow_id": made["id"], "workflow_name": "test", "step_id": "tell",
        "data": {"ip": "8.8.8.8"},
    }  # fmt: skip
    ids = {request["headers"]["webhook-id"] for request in receiver.requests if request["path"] == "/a"}
    assert view["output"] == {"event_id": ids.pop(), "webhooks": 2}
    assert view["steps"][0]["input"] == {"event": "workflow.alert", "data": {"ip": "8.8.8.8"}}


async def test_an_alert_that_no_webhook_wants_is_stored_nowhere_and_says_so(
    person: Person, worker: None, database: Database
) -> None:
    view = await finish(person, await create(person, steps=[TELL]), {"ip": "8.8.8.8"})
    assert view["output"] == {"event_id": None, "webhooks": 0}
    assert await alerts_of(database, person) == []


async def test_what_is_done_again_after_a_crash_sends_nothing_more(
    person: Person, database: Database
) -> None:
    await listen(person, "https://example.com/", "*")
    told = WorkflowAlert(
        run_id=uuid4(), workflow_id=uuid4(), workflow_name="x", step_id="tell", data={"n": 1}
    )  # fmt: skip

    async def emit(alert: WorkflowAlert) -> Any:
        async with database.transaction() as connection:
            return await alerts.emit_once(connection, person.account.id, alert)

    first = await emit(told)
    assert await emit(told.model_copy(update={"data": {"n": 2}})) == first
    assert [row["data"]["data"] for row in await alerts_of(database, person)] == [{"n": 1}]
    await emit(told.model_copy(update={"step_id": "other"}))
    await emit(told.model_copy(update={"run_id": new_id()}))
    assert len(await alerts_of(database, person)) == 3


async def test_a_commit_that_is_lost_leaves_no_alert_and_the_repeat_sends_it(
    person: Person, database: Database
) -> None:
    await listen(person, "https://example.com/", "*")
    alert = WorkflowAlert(run_id=new_id(), workflow_id=uuid4(), workflow_name="x", step_id="s", data=None)
    with pytest.raises(ConnectionError):
        async with database.transaction() as connection:
            await alerts.emit_once(connection, person.account.id, alert)
            raise ConnectionError
    assert await alerts_of(database, person) == []
    async with database.transaction() as connection:
        output = await alerts.emit_once(connection, person.account.id, alert)
    assert [str(row["id"]) for row in await alerts_of(database, person)] == [output["event_id"]]


async def test_a_retry_of_a_run_sends_an_alert_of_its_own(
    person: Person, worker: None, database: Database
) -> None:
    await listen(person, "https://example.com/", "*")
    made = await create(person, steps=[TELL, transform("bad", "max(trigger)")])
    first = await finish(person, made, "x")
    again = await person.key.post(f"/api/workflows/runs/{first['id']}/retry", json={"from_step": "tell"})
    assert again.status_code == 202, again.text

    async def two() -> bool:
        return len(await alerts_of(database, person)) == 2

    await until(two)


@pytest.mark.parametrize(
    ("config", "pointer", "code"),
    [
        ({"data": 1}, "/steps/0/config/event", "required"),
        ({"event": "workflow.run.failed"}, "/steps/0/config/event", "not_allowed"),
        (
            {"event": "workflow.alert", "data": "{{ secrets.X }}"},
            "/steps/0/config/data",
            "secret_not_allowed",
        ),
        (
            {"event": "workflow.alert", "data": ["{{ nobody }}"]},
            "/steps/0/config/data/0",
            "unknown_reference",
        ),
        (
            {"event": "workflow.alert", "data": "{{ run.resume_urls.w }}"},
            "/steps/0/config/data",
            "resume_url_not_allowed",
        ),
    ],
)
async def test_a_step_that_could_not_emit_is_refused_at_save(
    person: Person, config: JSONObject, pointer: str, code: str
) -> None:
    step = {"id": "tell", "type": "emit", "config": config}
    answer = await person.key.post("/api/workflows", json={"name": "x", "steps": [step]})
    assert answer.status_code == 400 and (pointer, code) in wrong(answer)


async def depth_of(database: Database, run_id: str) -> int | None:
    async with database.connection() as connection:
        cursor = await connection.execute("select depth from runs where id = %s", (run_id,))
        row: Any = await cursor.fetchone()
    return row["depth"]


async def runs_of(person: Person) -> list[JSONObject]:
    """The runs of an account, oldest first."""
    found = await person.key.get("/api/workflows/runs", params={"limit": 100, "include": "steps"})
    return found.json()["runs"][::-1]


async def all_ended(person: Person, count: int) -> list[JSONObject]:
    async def look() -> list[JSONObject] | None:
        runs = await runs_of(person)
        return runs if len(runs) >= count and all(run["completed_at"] for run in runs) else None

    return await until(look)


def local(api: Api, url: str) -> str:
    """A URL of the service as this test reaches it."""
    return f"{api.url}/api/{url.partition('/api/')[2]}"


async def test_a_workflow_whose_alert_starts_it_again_ends_after_five(
    api: Api, person: Person, worker: None
) -> None:
    made = await create(person, steps=[TELL])
    await listen(person, local(api, made["webhook_url"]), "workflow.alert")
    await post(api, made["webhook_url"], json={"ip": "8.8.8.8"})
    runs = await all_ended(person, 6)
    assert [run["status"] for run in runs] == 5 * ["completed"] + ["failed"]
    assert runs[-1]["error"]["code"] == "chain_too_deep"


async def test_a_workflow_that_the_end_of_its_own_run_starts_ends_after_five(
    api: Api, person: Person, worker: None
) -> None:
    made = await create(person, steps=[])
    await listen(person, local(api, made["webhook_url"]), "workflow.run.completed")
    await post(api, made["webhook_url"], json={})

    async def refused() -> JSONObject | None:
        found = await person.key.get("/api/webhooks/deliveries", params={"limit": 100})
        bodies = [one["response_body"] or "" for one in found.json()["deliveries"]]
        return next((json.loads(body) for body in bodies if "chain_too_deep" in body), None)

    answer = await until(refused)
    assert answer["status"] == 409
    assert len(await runs_of(person)) == 6


@pytest.mark.parametrize("path", ["ingest", "run"])
async def test_a_workflow_that_calls_itself_ends_after_five(
    api: Api, person: Person, worker: None, path: str
) -> None:
    stored = await person.key.post("/api/workflows/secrets", json={"name": "KEY", "value": person.secret})
    assert stored.status_code == 201
    made = await create(person, steps=[])
    url = local(api, made["webhook_url"]) if path == "ingest" else f"{api.url}/api/workflows/{made['id']}/run"
    headers = {"Authorization": "Bearer {{ secrets.KEY }}", "vedette-chain": "0"}
    call = webhook(url, headers=headers, body={})
    changed = await person.key.patch(f"/api/workflows/{made['id']}", json={"steps": [call]})
    assert changed.status_code == 200, changed.text
    await post(api, made["webhook_url"], json={})
    runs = await all_ended(person, 6)
    assert [run["status"] for run in runs] == 5 * ["completed"] + ["failed"]
    assert runs[-1]["error"]["code"] == "http_status"


async def test_requests_to_others_do_not_say_how_many_runs_have_led_to_them(
    person: Person, worker: None, receiver: Endpoint
) -> None:
    await finish(person, await create(person, steps=[webhook(receiver.url)]), 1)
    assert "Vedette-Chain" not in receiver.requests[0]["headers"]


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("5", None),
        ("6", (409, "chain_too_deep")),
        ("999", (409, "chain_too_deep")),
        ("-1", (400, "invalid_input")),
        ("1e0", (400, "invalid_input")),
        ("9999", (400, "invalid_input")),
    ],
)
async def test_an_event_is_taken_where_at_most_five_runs_have_led_to_it(
    api: Api, person: Person, database: Database, header: str, found: tuple[int, str] | None
) -> None:
    made = await create(person, steps=[])
    answer = await post(api, made["webhook_url"], json={}, headers={"Vedette-Chain": header})
    if found is None:
        assert answer.status_code == 202
        assert await depth_of(database, answer.json()["run_id"]) == 5
    else:
        assert problem(answer) == found
