"""What templates promise that send something on: it arrives, once, though the other side was away."""

from __future__ import annotations

import pytest
from aiohttp import web
from temporalio.client import Client

from database import Database
from tests.api_server import Api, Person
from tests.automations.engine import Endpoint, requested
from tests.automations.workflows import create, post
from tests.templates.copies import copy, run, sent
from tests.templates.promises.world import World, let_pass
from tests.workflow_uploads.files import accepted, ended

pytestmark = pytest.mark.usefixtures("worker")

ADA = "ada@example.com"


@pytest.fixture
def away(receiver: Endpoint, monkeypatch: pytest.MonkeyPatch) -> list[web.Response]:
    """Return what the other side answers first; then it takes everything."""
    failures: list[web.Response] = []
    monkeypatch.setattr(receiver, "answer", lambda _: failures.pop() if failures else web.json_response({}))
    return failures


async def test_what_is_approved_is_done_although_the_other_side_was_away_and_the_link_works_once(
    api: Api, person: Person, receiver: Endpoint, away: list[web.Response]
) -> None:
    made = await copy(person, "approve-by-link")
    await post(api, made["webhook_url"], json={"title": "A new laptop", "requested_by": "Ada"})
    await requested(receiver, 1)
    [(_, question)] = sent(receiver)
    path = "/api/" + question["text"].partition("/api/")[2]
    away.append(web.json_response({}, status=503))
    html = {"Accept": "text/html"}
    answer = await api.http.post(f"{path}/form", data={"field0": "0"}, headers=html)
    assert answer.status_code == 200 and "Thank you" in answer.text
    again = await api.http.post(f"{path}/form", data={"field0": "1"}, headers=html)
    assert again.status_code == 409
    await requested(receiver, 2)
    assert [name for name, _ in sent(receiver)] == ["APPROVED_URL", "APPROVED_URL"]


async def test_a_contact_reaches_a_crm_that_was_away(
    api: Api, person: Person, receiver: Endpoint, away: list[web.Response]
) -> None:
    made = await copy(person, "enrich-crm-contact")
    away.append(web.json_response({}, status=503))
    await run(api, person, made, {"id": 7, "email": ADA})
    first, second = sent(receiver)
    assert first == second and first[0] == "CRM_CONTACTS_URL"


async def test_rows_without_an_address_are_left_out_and_unsure_ones_are_looked_up(
    person: Person, worker: Client, world: World
) -> None:
    world.domain("example.com")
    made = await copy(person, "enrich-csv-rows")
    with world.silent("mx"):
        batch = await ended(person, await accepted(person, made["id"], f"E-Mail,Number\n{ADA},1\n,2\nx@,3\n"))
    assert (batch["runs_completed"], batch["runs_failed"]) == (3, 0)
    asked = {"batch_id": batch["id"], "include": "output"}
    runs = (await person.key.get("/api/workflows/runs", params=asked)).json()["runs"]
    rows = [run["output"] for run in runs if "row" in run["output"]]
    assert [(row["row"]["Number"], row["name"]) for row in rows] == [("1", "Ada Lovelace")]


async def test_a_workflow_that_keeps_failing_is_told_once_an_hour_and_nothing_is_lost(
    api: Api, person: Person, receiver: Endpoint, database: Database
) -> None:
    keeper = await copy(person, "failed-runs")
    steps = [{"id": "half", "type": "transform", "config": {"expression": "sum(trigger.parts)"}}]
    failing = await create(person, steps=steps, on_failure={"workflow_id": keeper["id"]})
    for passed, told in ((0, 1), (0.5, 0), (0.6, 1)):
        await let_pass(database, passed / 24)
        await run(api, person, failing, {"parts": "none"})
        await requested(receiver, 1 + told)
        names = [name for name, _ in sent(receiver)]
        assert names.count("DEAD_LETTER_URL") == 1 and len(names) == 1 + told
