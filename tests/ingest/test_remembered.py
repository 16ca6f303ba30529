"""Events for a workflow that a process remembers: it answers as the workflow is now."""

from __future__ import annotations

from typing import Any

import pytest

from database import Database
from models.runs import acceptance
from models.runs.acceptance import RunAcceptance, RunRequest, StaleTarget
from models.runs.run_bounds import UnfinishedRuns
from services.ingest import IngestTargets, accept_together
from tests.api_server import Api, Person
from tests.automations.workflows import create, post, problem
from tests.ingest.conftest import RunsOf


async def remembered(api: Api, person: Person, **fields: Any) -> dict[str, Any]:
    """Create a workflow of which the API has had an event."""
    made = await create(person, **fields)
    assert (await post(api, made["webhook_url"], json={"n": 1})).status_code == 202
    return made


async def change(person: Person, made: dict[str, Any], **changes: Any) -> None:
    answer = await person.key.patch(f"/api/workflows/{made['id']}", json=changes)
    assert answer.status_code == 200, answer.text


async def test_a_workflow_that_is_paused_takes_no_event_until_it_is_active_again(
    api: Api, person: Person
) -> None:
    made = await remembered(api, person)
    await change(person, made, status="paused")
    for key in ({}, {"Idempotency-Key": "one"}):
        refused = await post(api, made["webhook_url"], json={}, headers=key)
        assert problem(refused) == (409, "workflow_not_active")
    await change(person, made, status="active")
    assert (await post(api, made["webhook_url"], json={})).status_code == 202


async def test_an_event_runs_the_version_that_was_saved_before_it(api: Api, person: Person) -> None:
    made = await remembered(api, person)
    await change(person, made, steps=[{"id": "a", "type": "transform", "config": {"mapping": {"n": "`2`"}}}])
    answer = (await post(api, made["webhook_url"], json={})).json()
    run = (await person.key.get(f"/api/workflows/runs/{answer['run_id']}")).json()
    assert run["workflow_version"] == 2


async def test_an_event_is_judged_by_the_schema_that_was_saved_before_it(api: Api, person: Person) -> None:
    made = await remembered(api, person, input_schema={"required": ["n"]})
    assert (await post(api, made["webhook_url"], json={})).status_code == 400
    await change(person, made, input_schema={"required": ["m"]})
    assert (await post(api, made["webhook_url"], json={"m": 1})).status_code == 202
    assert (await post(api, made["webhook_url"], json={"n": 1})).status_code == 400


async def test_an_event_for_a_deleted_workflow_or_a_replaced_token_finds_nothing(
    api: Api, person: Person
) -> None:
    replaced, deleted = await remembered(api, person), await remembered(api, person)
    await person.key.post(f"/api/workflows/{replaced['id']}/rotate-token", json={})
    await person.key.delete(f"/api/workflows/{deleted['id']}")
    for made in (replaced, deleted):
        assert problem(await post(api, made["webhook_url"], json={})) == (404, "not_found")


async def test_a_repeat_that_violates_the_schema_is_not_told_of_its_run_by_a_replaced_token(
    api: Api, person: Person
) -> None:
    made = await create(person)
    key = {"Idempotency-Key": "one"}
    assert (await post(api, made["webhook_url"], json={}, headers=key)).status_code == 202
    await change(person, made, input_schema={"required": ["n"]})
    assert (await post(api, made["webhook_url"], json={}, headers=key)).status_code == 202
    await person.key.post(f"/api/workflows/{made['id']}/rotate-token", json={})
    assert problem(await post(api, made["webhook_url"], json={}, headers=key)) == (404, "not_found")


@pytest.fixture
async def event(database: Database, api: Api, person: Person) -> RunRequest:
    """An event of a workflow that has changed since the workflow was read."""
    made = await create(person)
    target = await IngestTargets(database).find(made["webhook_url"].rsplit("/", 1)[1])
    await change(person, made, status="paused")
    return RunRequest(target, "webhook", {"n": 1})


async def test_the_events_of_one_stale_target_do_not_refuse_those_of_others(
    database: Database, event: RunRequest, person: Person, runs_of: RunsOf
) -> None:
    other = await create(person)
    target = await IngestTargets(database).find(other["webhook_url"].rsplit("/", 1)[1])
    events = [event, RunRequest(target, "webhook", {}), RunRequest(target, "webhook", {}, dedupe_key="k")]
    for group in (events[:2], events):
        found = await accept_together(database, UnfinishedRuns(1000), group)
        assert [isinstance(one, StaleTarget) for one in found] == [True, *([False] * (len(group) - 1))]
    assert await runs_of(event.target.automation_id) == 0


async def test_a_change_after_the_commit_does_not_accept_an_event_twice(
    database: Database, person: Person, runs_of: RunsOf
) -> None:
    """Its reply was lost, so the same request is made again."""
    for key in (None, "k"):
        made = await create(person)
        target = await IngestTargets(database).find(made["webhook_url"].rsplit("/", 1)[1])
        event = RunRequest(target, "webhook", {}, dedupe_key=key)
        async with database.connection() as connection:
            await acceptance.accept(connection, [event])
        await change(person, made, status="paused")
        accepted = await accept_together(database, UnfinishedRuns(1000), [event])
        assert accepted == [RunAcceptance(run_id=event.run_id, repeated=False)]
        assert await runs_of(target.automation_id) == 1
