"""GET /api/workflows/audit and /api/workflows/{id}/audit: who did what to workflows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from database import Database
from models import audit
from models.audit import Actor, Target, differences
from tests.api_server import Api, Person
from tests.runs.workflows import create, start


async def entries(person: Person, workflow: str | None = None) -> list[dict[str, Any]]:
    path = "/api/workflows/audit" if workflow is None else f"/api/workflows/{workflow}/audit"
    response = await person.key.get(path)
    assert response.status_code == 200, response.text
    return response.json()["entries"]


async def test_a_change_is_shown_with_who_made_it_and_what_was_and_is(api: Api) -> None:
    person = await api.person()
    workflow = await create(person)
    changes = {"name": "another", "status": "paused"}
    answer = await person.session.patch(
        f"/api/workflows/{workflow}", json=changes, headers={"x-request-id": "audited-request"}
    )
    assert answer.status_code == 200
    updated, created = await entries(person, workflow)
    assert updated["action"] == "workflow.updated"
    assert updated["target"] == {"kind": "workflow", "id": workflow, "name": "another"}
    assert (updated["actor"]["kind"], updated["actor"]["name"]) == ("session", person.account.email)
    assert (updated["request_id"], updated["ip"]) == ("audited-request", "127.0.0.1")
    assert updated["changes"] == {
        "name": {"old": "test", "new": "another"}, "status": {"old": "active", "new": "paused"}, "version": 2,
    }  # fmt: skip
    assert (created["action"], created["actor"]["kind"]) == ("workflow.created", "key")


async def test_a_restored_version_is_shown_with_what_it_changed(api: Api) -> None:
    person = await api.person()
    workflow = await create(person)
    await person.key.patch(f"/api/workflows/{workflow}", json={"name": "another"})
    await person.key.post(f"/api/workflows/{workflow}/versions/1/restore")
    changes = (await entries(person, workflow))[0]["changes"]
    assert changes == {"restored": 1, "name": {"old": "another", "new": "test"}, "version": 3}


def test_of_large_values_only_their_bytes_are_told() -> None:
    large = ["x" * 3000]
    assert differences({"steps": large, "same": 1}, {"steps": [], "same": 1, "more": 2}) == {
        "steps": {"old_bytes": 3004, "new_bytes": 2}, "more": {"old": None, "new": 2},
    }  # fmt: skip


async def test_runs_that_somebody_starts_cancels_and_retries_are_shown(api: Api) -> None:
    person = await api.person()
    workflow = await create(person)
    run = await start(person, workflow)
    for _ in range(2):
        await person.session.post(f"/api/workflows/runs/{run}/cancel")
    retried = (await person.key.post(f"/api/workflows/runs/{run}/retry")).json()["run_id"]
    shown = [(entry["action"], entry["changes"]) for entry in await entries(person, workflow)]
    assert shown[:-1] == [
        ("run.retried", {"run_id": retried, "restarted_from": run, "from_step": None, "version": 1}),
        ("run.cancelled", {"run_id": run}),
        ("run.started", {"run_id": run}),
    ]
    targets = [entry["target"] for entry in await entries(person, workflow)]
    assert targets == [{"kind": "workflow", "id": workflow, "name": "test"}] * 4


async def test_a_repeat_of_a_request_is_shown_once(api: Api) -> None:
    person = await api.person()
    workflow = await create(person)
    for _ in range(2):
        await person.key.post(
            f"/api/workflows/{workflow}/run", json={}, headers={"Idempotency-Key": "the-same"}
        )
    assert [entry["action"] for entry in await entries(person, workflow)] == [
        "run.started", "workflow.created",
    ]  # fmt: skip


async def test_a_run_that_an_event_starts_is_not_shown(api: Api) -> None:
    person = await api.person()
    workflow = await create(person, trigger={"type": "webhook"})
    url = (await person.key.get(f"/api/workflows/{workflow}")).json()["webhook_url"]
    assert (await api.http.post("/api/" + url.partition("/api/")[2], json={})).status_code == 202
    assert [entry["action"] for entry in await entries(person, workflow)] == ["workflow.created"]


async def test_a_deleted_workflow_and_its_cancelled_runs_stay_readable(api: Api) -> None:
    person = await api.person()
    workflow = await create(person)
    await start(person, workflow)
    await person.key.delete(f"/api/workflows/{workflow}?cancel_runs=true")
    shown = [(entry["action"], entry["changes"]) for entry in await entries(person, workflow)]
    assert shown[:2] == [("workflow.deleted", None), ("run.cancelled", {"runs": 1})]


async def test_the_accounts_log_has_all_workflows_and_secrets_and_nothing_else(api: Api) -> None:
    person = await api.person()
    await person.key.post("/api/workflows/secrets", json={"name": "TOKEN", "value": "canary"})
    await person.key.post("/api/lists", json={"name": "a list"})
    for _ in range(2):
        await create(person)
    response = await person.key.get("/api/workflows/audit")
    assert [entry["action"] for entry in response.json()["entries"]] == [
        "workflow.created", "workflow.created", "secret.created",
    ]  # fmt: skip
    assert "canary" not in response.text


async def test_pages_follow_each_other(api: Api) -> None:
    person = await api.person()
    ids = [await create(person) for _ in range(3)]
    first = (await person.key.get("/api/workflows/audit?limit=2")).json()
    rest = (await person.key.get(f"/api/workflows/audit?limit=2&cursor={first['next_cursor']}")).json()
    assert [entry["target"]["id"] for entry in first["entries"] + rest["entries"]] == ids[::-1]
    assert rest["next_cursor"] is None


@pytest.mark.parametrize("cursor", ["nonsense", "AAAA", "%00"])
async def test_a_cursor_that_is_not_ours_is_refused(api: Api, cursor: str) -> None:
    person = await api.person()
    response = await person.key.get(f"/api/workflows/audit?cursor={cursor}")
    assert (response.status_code, response.json()["errors"][0]["parameter"]) == (400, "cursor")


async def test_what_was_told_of_old_runs_is_deleted(api: Api, database: Database) -> None:
    person = await api.person()
    workflow = UUID(await create(person))
    actor = Actor(person.account.id, "system", name="system")
    async with database.transaction() as connection:
        for _ in range(3):
            await audit.record(connection, actor, "run.started", Target("workflow", workflow))
        await audit.delete_of_runs(connection, timedelta(hours=1), limit=2)
    assert len(await entries(person)) == 4
    async with database.connection() as connection:
        await audit.delete_of_runs(connection, -timedelta(hours=1), limit=2)
    assert [entry["action"] for entry in await entries(person)] == ["workflow.created"]
