"""Ingest URLs that are replaced: which of them work, from when, and for how long."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from database import Database
from models import audit
from tests.api_server import Api, Person
from tests.automations.workflows import create, post, problem


async def rotate(person: Person, made: dict[str, Any], **body: Any) -> dict[str, Any]:
    answer = await person.key.post(f"/api/workflows/{made['id']}/rotate-token", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def status_of(api: Api, url: str) -> int:
    return (await post(api, url, json={})).status_code


async def let_pass(database: Database, workflow_id: str) -> None:
    """Have the overlap of a workflow's tokens be over."""
    async with database.connection() as connection:
        await connection.execute(
            "update former_ingest_tokens set ends_at = now() where automation_id = %s", (workflow_id,)
        )


async def test_the_new_url_works_at_once_and_the_old_one_no_longer(api: Api, person: Person) -> None:
    made = await create(person)
    rotated = await rotate(person, made)
    assert rotated["previous_expires_at"] is None
    assert await status_of(api, rotated["webhook_url"]) == 202
    gone, unknown = (
        await post(api, made["webhook_url"], json={}),
        await post(api, made["webhook_url"][:-1], json={}),
    )
    assert problem(gone) == problem(unknown) == (404, "not_found")
    assert gone.json()["message"] == unknown.json()["message"]
    read = (await person.key.get(f"/api/workflows/{made['id']}")).json()
    assert (read["webhook_url"], read["version"]) == (rotated["webhook_url"], 1)


async def test_an_overlap_lets_both_work_for_its_seconds(
    api: Api, person: Person, database: Database
) -> None:
    made = await create(person)
    rotated = await rotate(person, made, overlap_seconds=60)
    assert rotated["previous_expires_at"] is not None
    urls = (made["webhook_url"], rotated["webhook_url"])
    assert [await status_of(api, url) for url in urls] == [202, 202]
    await let_pass(database, made["id"])
    assert [await status_of(api, url) for url in urls] == [404, 202]


async def test_both_urls_lead_to_the_same_runs(api: Api, person: Person) -> None:
    made = await create(person)
    rotated = await rotate(person, made, overlap_seconds=60)
    key = {"Idempotency-Key": "one"}
    answers: list[httpx.Response] = await asyncio.gather(
        *(post(api, url, json={}, headers=key) for url in (made["webhook_url"], rotated["webhook_url"]) * 3)
    )
    assert len({answer.json()["run_id"] for answer in answers}) == 1


async def test_a_second_rotation_ends_the_overlap_of_the_first(api: Api, person: Person) -> None:
    made = await create(person)
    first = await rotate(person, made, overlap_seconds=604_800)
    second = await rotate(person, made, overlap_seconds=60)
    urls = (made["webhook_url"], first["webhook_url"], second["webhook_url"])
    assert [await status_of(api, url) for url in urls] == [404, 202, 202]
    await rotate(person, made)
    assert [await status_of(api, url) for url in urls] == [404, 404, 404]


async def test_rotations_at_once_leave_one_token_and_one_before_it(api: Api, person: Person) -> None:
    made = await create(person)
    rotated = await asyncio.gather(*(rotate(person, made, overlap_seconds=60) for _ in range(5)))
    urls = [made["webhook_url"], *(one["webhook_url"] for one in rotated)]
    assert sorted([await status_of(api, url) for url in urls]) == [202, 202, 404, 404, 404, 404]


async def test_a_deleted_or_paused_workflow_answers_alike_under_both(api: Api, person: Person) -> None:
    made = await create(person)
    rotated = await rotate(person, made, overlap_seconds=60)
    urls = (made["webhook_url"], rotated["webhook_url"])
    await person.key.patch(f"/api/workflows/{made['id']}", json={"status": "paused"})
    waits = [await post(api, url + "?wait=5", json={}) for url in urls]
    assert {problem(answer) for answer in waits} == {(409, "workflow_not_active")}
    await person.key.delete(f"/api/workflows/{made['id']}")
    assert [await status_of(api, url) for url in urls] == [404, 404]
    answer = await person.key.post(f"/api/workflows/{made['id']}/rotate-token")
    assert problem(answer) == (404, "not_found")


async def test_a_rotation_is_in_the_audit_log_without_a_token(
    api: Api, person: Person, database: Database
) -> None:
    made = await create(person)
    rotated = await rotate(person, made, overlap_seconds=60)
    async with database.connection() as connection:
        entry = (await audit.list_entries(connection, person.account.id))[0]
    assert (entry.action, str(entry.target.id)) == ("workflow.token_rotated", made["id"])
    assert entry.changes == {"overlap_seconds": 60}
    for url in (made["webhook_url"], rotated["webhook_url"]):
        assert url.rpartition("/")[2] not in entry.model_dump_json()


WRONG: list[Any] = [-1, 604_801, 1.5, "60", True, None]


@pytest.mark.parametrize("seconds", WRONG, ids=repr)
async def test_an_overlap_is_between_no_seconds_and_a_week(api: Api, person: Person, seconds: Any) -> None:
    made = await create(person)
    answer = await person.key.post(
        f"/api/workflows/{made['id']}/rotate-token", json={"overlap_seconds": seconds}
    )
    assert problem(answer) == (400, "invalid_input")
    assert await status_of(api, made["webhook_url"]) == 202


async def test_a_rotation_needs_the_scope_and_no_body(api: Api, person: Person) -> None:
    made, reader = await create(person), await api.person(scopes=["lookups"])
    path = f"/api/workflows/{made['id']}/rotate-token"
    assert problem(await reader.key.post(path)) == (403, "insufficient_scope")
    assert (await person.session.post(path)).status_code == 200
