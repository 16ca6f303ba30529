"""Saving workflows over HTTP: validation, versions, scopes."""

from typing import Any

import httpx
import pytest

from database import Database
from models.automations import definitions
from tests.api_server import Api, Person
from tests.automations.engine import transform, webhook
from tests.automations.workflows import create, problem, wrong
from tests.outbound.raw import CONNECTION_HEADERS


async def test_only_a_name_is_required(person: Person) -> None:
    response = await person.key.post("/api/workflows", json={"name": "empty"})
    made = response.json()
    assert (made["trigger"], made["steps"]) == ({"type": "manual"}, [])


BAD: dict[str, Any] = {
    "stepz": [],
    "steps": [
        {"id": "a", "type": "transform", "config": {"expression": "foo("}},
        {"id": "b", "type": "ip_lookup", "config": {"filed": "trigger.ip"}},
        {"id": "a", "type": "condition", "config": {"expression": "later.x"}},
        {"id": "later", "type": "transform", "config": {}, "needs": ["nobody"]},
        webhook("https://example.com", headers={"X-Key": "{{ secrets.NOPE }}"}),
    ],
    "input_schema": {"type": "text"},
}
WRONG_WITH_IT = {
    ("/stepz", "unknown_field"),
    ("/steps/0/config/expression", "bad_expression"),
    ("/steps/1/config/filed", "unknown_field"),
    ("/steps/2/id", "duplicate_id"),
    ("/steps/2/config/expression", "later_step"),
    ("/steps/3/needs/0", "unknown_reference"),
    ("/steps/3/config", "expression_or_mapping"),
    ("/steps/4/config/headers/X-Key", "unknown_secret"),
    ("/input_schema/type", "invalid_value"),
}


async def test_a_bad_definition_is_refused_with_everything_that_is_wrong(person: Person) -> None:
    response = await person.key.post("/api/workflows", json={"name": "bad", **BAD})
    assert problem(response) == (400, "invalid_input") and wrong(response) == WRONG_WITH_IT


async def test_validating_finds_what_creating_would_and_stores_nothing(api: Api) -> None:
    person = await api.person()
    bad = await person.key.post("/api/workflows/validate", json={"name": "bad", **BAD})
    assert (bad.status_code, bad.json()["valid"]) == (200, False) and wrong(bad) == WRONG_WITH_IT
    steps = [{"id": "a", "type": "condition", "config": {"expression": 'trigger.x == "y"'}}]
    good = (await person.key.post("/api/workflows/validate", json={"name": "good", "steps": steps})).json()
    assert (good["valid"], good["errors"]) == (True, [])
    assert [warning["code"] for warning in good["warnings"]] == ["doubtful_expression"]
    assert (await person.key.get("/api/workflows")).json()["total"] == 0


@pytest.mark.parametrize("name", CONNECTION_HEADERS)
async def test_a_header_that_describes_the_connection_is_refused_by_its_place(
    person: Person, name: str
) -> None:
    steps = [
        transform("a", "'x'"),
        webhook("https://example.com", headers={"X-Ok": "1", name: "evil.example"}),
    ]
    response = await person.key.post("/api/workflows", json={"name": "w", "steps": steps})
    assert response.status_code == 400
    assert wrong(response) == {(f"/steps/1/config/headers/{name}", "forbidden_header")}


@pytest.mark.parametrize("body", [[], "x", 5, None])
async def test_what_is_no_object_is_not_a_workflow(person: Person, body: Any) -> None:
    validated = await person.key.post("/api/workflows/validate", json=body)
    created = await person.key.post("/api/workflows", json=body)
    changed = await person.key.patch(f"/api/workflows/{(await create(person))['id']}", json=body)
    for response in (validated, created, changed):
        assert (response.status_code, [pointer for pointer, _ in wrong(response)]) == (400, [""])


async def test_a_workflow_can_be_sent_back_as_it_was_read(person: Person) -> None:
    made = await create(person, steps=[transform("a", "'x'")])
    read = (await person.key.get(f"/api/workflows/{made['id']}")).json()
    assert (await person.key.post("/api/workflows/validate", json=read)).json()["valid"]
    assert (await person.key.put(f"/api/workflows/{made['id']}", json=read)).json()["version"] == 2
    assert (await person.key.post("/api/workflows", json=read)).status_code == 201


async def test_the_published_schema_can_be_fetched(person: Person) -> None:
    assert (await person.key.get("/api/workflows/schema")).json() == definitions.json_schema()


async def test_a_known_secret_can_be_used_and_the_version_says_so(person: Person, database: Database) -> None:
    await person.key.post("/api/workflows/secrets", json={"name": "TOKEN", "value": "canary-value"})
    made = await create(person, steps=[webhook("https://example.com", body="{{ secrets.TOKEN }}")])
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select secrets from automation_versions where automation_id = %s", (made["id"],)
        )
        assert await cursor.fetchone() == {"secrets": ["TOKEN"]}


LOOKUP = {"id": "ip", "type": "ip_lookup", "config": {"field": "trigger.ip"}}


@pytest.mark.parametrize(
    ("url", "refused"),
    [
        ("http://10.0.0.1/hook", True),
        ("http://169.254.169.254/latest/{{ trigger.path }}", True),
        ("http://[::1]:8080/", True),
        ("https://example.com:22/", True),
        ("https://example.com/{{ trigger.path }}", False),
        ("https://{{ trigger.host }}/", False),
        ("{{ trigger.url }}", False),
    ],
)
async def test_a_url_that_can_never_be_called_is_refused(person: Person, url: str, refused: bool) -> None:
    steps = [{"id": "call", "type": "webhook", "config": {"url": url}}]
    answer = await person.key.post("/api/workflows", json={"name": "test", "steps": steps})
    if refused:
        assert wrong(answer) == {("/steps/0/config/url", "forbidden_address")}
        [error] = answer.json()["errors"]
        assert "VEDETTE_ALLOW_PRIVATE_NETWORKS" in error["message"] or "ports" in error["message"]
    else:
        assert answer.status_code == 201


async def test_only_who_may_look_up_can_save_lookup_steps(api: Api) -> None:
    person = await api.person()
    limited = await limited_to(api, person, ["workflows"])
    refused = await limited.post("/api/workflows", json={"name": "test", "steps": [LOOKUP]})
    assert problem(refused) == (403, "insufficient_scope")
    path = f"/api/workflows/{(await create(person))['id']}"
    for method in ("PUT", "PATCH"):
        changed = await limited.request(method, path, json={"steps": [LOOKUP]})
        assert problem(changed) == (403, "insufficient_scope")
    await person.key.patch(path, json={"steps": [LOOKUP]})
    await person.key.patch(path, json={"steps": []})
    restored = await limited.post(f"{path}/versions/2/restore")
    assert problem(restored) == (403, "insufficient_scope")
    assert (await limited.post("/api/workflows", json={"name": "test"})).status_code == 201
    copied = await limited.post("/api/workflows", json={"template_id": "alert-on-tor"})
    assert problem(copied) == (403, "insufficient_scope")
    await person.key.patch(path, json={"steps": [LOOKUP], "status": "paused"})
    enabled = await limited.patch(path, json={"status": "active"})
    assert problem(enabled) == (403, "insufficient_scope")


async def limited_to(api: Api, person: Person, scopes: list[str]) -> httpx.AsyncClient:
    made = await person.session.post("/api/keys", json={"name": "limited", "scopes": scopes})
    return await api.client(Authorization=f"Bearer {made.json()['key']}")


async def test_a_name_in_double_quotes_is_warned_of(person: Person) -> None:
    steps = [{"id": "a", "type": "condition", "config": {"expression": 'trigger.x == "y"'}}]
    [warning] = (await create(person, steps=steps))["warnings"]
    assert (warning["pointer"], warning["code"]) == ("/steps/0/config/expression", "doubtful_expression")


async def test_put_and_patch_merge_and_every_change_is_a_version(person: Person) -> None:
    steps = [transform("a", "'x'")]
    made = await create(person, steps=steps, description="old")
    path = f"/api/workflows/{made['id']}"
    patched = await person.key.patch(path, json={"description": None, "status": "paused"})
    assert patched.headers["etag"] == '"v2"'
    put = await person.key.put(path, json={**patched.json(), "name": "renamed"})
    after = put.json()
    assert (after["name"], after["description"], after["status"]) == ("renamed", "", "paused")
    assert (after["version"], after["steps"], after["webhook_url"]) == (3, steps, made["webhook_url"])


async def test_a_change_is_validated_like_a_new_workflow(person: Person) -> None:
    made = await create(person)
    path = f"/api/workflows/{made['id']}"
    response = await person.key.patch(path, json={"steps": [transform("a", "nobody.x")]})
    assert problem(response)[0] == 400
    assert response.json()["errors"][0]["pointer"] == "/steps/0/config/expression"
    assert (await person.key.get(path)).json()["version"] == 1


async def test_a_change_for_another_version_is_refused(person: Person) -> None:
    path = f"/api/workflows/{(await create(person))['id']}"
    assert (await person.key.patch(path, json={"name": "b"}, headers={"If-Match": '"v1"'})).status_code == 200
    late = await person.key.patch(path, json={"name": "c"}, headers={"If-Match": '"v1"'})
    assert problem(late) == (412, "version_mismatch")


async def changed_twice(person: Person) -> str:
    """A workflow with three versions, the last of which has lost its steps."""
    made = await create(person, steps=[transform("a", "1")], description="first")
    path = f"/api/workflows/{made['id']}"
    await person.key.patch(path, json={"name": "second", "status": "paused"})
    await person.key.patch(path, json={"steps": [], "input_schema": {"type": "object"}})
    return path


async def test_versions_are_listed_newest_first_with_what_each_changed(person: Person) -> None:
    path = await changed_twice(person)
    first = (await person.key.get(f"{path}/versions?limit=2")).json()
    assert [(v["version"], v["name"], v["changes"]) for v in first["versions"]] == [
        (3, "second", ["steps", "input_schema"]),
        (2, "second", ["name"]),
    ]
    assert first["versions"][0]["created_by"] == "test"
    rest = (await person.key.get(f"{path}/versions?cursor={first['next_cursor']}")).json()
    assert [(v["version"], v["changes"]) for v in rest["versions"]] == [(1, [])]
    assert rest["next_cursor"] is None


async def test_a_workflow_put_back_as_it_was_got_has_changed_nothing(person: Person) -> None:
    path = f"/api/workflows/{(await person.key.post('/api/workflows', json={'name': 'test'})).json()['id']}"
    got = (await person.key.get(path)).json()
    assert (await person.key.put(path, json=got)).status_code == 200
    versions = (await person.key.get(f"{path}/versions")).json()["versions"]
    assert [(v["version"], v["changes"]) for v in versions] == [(2, []), (1, [])]


async def test_the_versions_of_before_are_compared_when_they_are_listed(
    person: Person, database: Database
) -> None:
    path = f"/api/workflows/{(await create(person, steps=[]))['id']}"
    await person.key.patch(path, json={"name": "second", "description": "new"})
    await person.key.patch(path, json={"agents": True})
    expected = (await person.key.get(f"{path}/versions")).json()
    assert [version["changes"] for version in expected["versions"]] == [[], ["name", "description"], []]
    async with database.connection() as connection:
        await connection.execute("update automation_versions set name = null, changes = null")
    assert (await person.key.get(f"{path}/versions?limit=1")).json()["versions"] == expected["versions"][:1]
    assert (await person.key.get(f"{path}/versions")).json() == expected


async def test_what_a_version_changed_is_stored_with_it(person: Person, database: Database) -> None:
    path = f"/api/workflows/{(await create(person, steps=[]))['id']}"
    await person.key.patch(path, json={"description": "new"})
    async with database.connection() as connection:
        await connection.execute("update automation_versions set definition = '{}'")
    versions = (await person.key.get(f"{path}/versions")).json()["versions"]
    assert [(version["name"], version["changes"]) for version in versions] == [
        ("test", ["description"]), ("test", []),
    ]  # fmt: skip


async def test_a_version_shows_the_workflow_as_it_was(person: Person) -> None:
    version = (await person.key.get(f"{await changed_twice(person)}/versions/1")).json()
    assert (version["name"], version["description"]) == ("test", "first")
    assert (version["steps"], version["input_schema"]) == ([transform("a", "1")], None)


@pytest.mark.parametrize("version", ["0", "4", "x", "99999999999"])
async def test_there_is_no_other_version(person: Person, version: str) -> None:
    path = f"{await changed_twice(person)}/versions/{version}"
    assert problem(await person.key.get(path)) == (404, "not_found")
    assert problem(await person.key.post(f"{path}/restore")) == (404, "not_found")


async def test_restoring_a_version_makes_it_the_newest_and_keeps_the_status(person: Person) -> None:
    path = await changed_twice(person)
    stale = await person.key.post(f"{path}/versions/1/restore", headers={"If-Match": '"v2"'})
    assert problem(stale) == (412, "version_mismatch")
    restored = await person.key.post(f"{path}/versions/1/restore")
    after = restored.json()
    assert restored.headers["etag"] == '"v4"'
    assert (after["version"], after["name"], after["description"]) == (4, "test", "first")
    assert (after["steps"], after["input_schema"]) == ([transform("a", "1")], None)
    assert after["status"] == "paused"


async def test_a_version_whose_secret_is_gone_cannot_be_restored(person: Person) -> None:
    await person.key.post("/api/workflows/secrets", json={"name": "GONE", "value": "canary-value"})
    made = await create(person, steps=[webhook("https://example.com", body="{{ secrets.GONE }}")])
    path = f"/api/workflows/{made['id']}"
    await person.key.patch(path, json={"steps": []})
    await person.key.delete("/api/workflows/secrets/GONE?force=true")
    response = await person.key.post(f"{path}/versions/1/restore")
    assert wrong(response) == {("/steps/0/config/body", "unknown_secret")}


@pytest.mark.parametrize("status", ["paused", "draft"])
async def test_a_workflow_whose_secret_is_gone_can_still_be_stopped(person: Person, status: str) -> None:
    await person.key.post("/api/workflows/secrets", json={"name": "GONE", "value": "canary-value"})
    made = await create(person, steps=[webhook("https://example.com", body="{{ secrets.GONE }}")])
    path = f"/api/workflows/{made['id']}"
    await person.key.delete("/api/workflows/secrets/GONE?force=true")
    stopped = await person.key.patch(path, json={"status": status})
    assert (stopped.status_code, stopped.json()["status"], stopped.json()["version"]) == (200, status, 2)
    assert stopped.json()["steps"] == made["steps"]
    again = await person.key.patch(path, json={"status": "active"})
    assert wrong(again) == {("/steps/0/config/body", "unknown_secret")}


async def test_branches_are_stored_and_shown_by_the_names_of_the_language(person: Person) -> None:
    steps = [
        {
            "id": "if",
            "type": "condition",
            "config": {"expression": "trigger.x", "then": ["a"], "else": ["b"]},
        },
        transform("a", "1"),
        transform("b", "2"),
    ]
    assert (await create(person, steps=steps))["steps"] == steps
