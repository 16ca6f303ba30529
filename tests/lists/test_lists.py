"""Contact lists: made, found, renamed, deleted."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest

from database import Database
from models import audit
from models.accounts import keys
from models.audit import AuditView
from models.lists.lists import ListView
from tests.api_server import Api, Person
from tests.lists.making import MOUNTS, add, create, problems, remove, targets

TYPES = ("email", "phone", "domain", "ip", "company", "darkweb")


async def entries(database: Database, person: Person) -> list[AuditView]:
    """Return what the audit log says of lists, oldest first."""
    async with database.connection() as connection:
        found = await audit.list_entries(connection, person.account.id, target_kind="list", limit=100)
    return list(reversed(found))


async def test_a_list_of_a_name_alone_is_of_email_addresses_and_empty(api: Api) -> None:
    person = await api.person()
    made = await create(person.key, name="  Customers ")
    assert made.keys() == {*ListView.model_fields, "invalid"}
    assert (made["name"], made["type"], made["invalid"]) == ("Customers", "email", [])
    assert await targets(person.key, made["id"]) == []


@pytest.mark.parametrize("type", TYPES)
async def test_older_clients_find_type_and_count_under_their_names(api: Api, type: str) -> None:
    person = await api.person()
    targets = {"ip": ["192.0.2.1"], "phone": ["+14155552671"], "email": ["ada@example.com"]}
    made = await create(person.key, type=type, emails=targets.get(type, ["example.com"]))
    assert (made["type"], made["list_type"]) == (type, type)
    assert (made["target_count"], made["email_count"]) == (1, 1)
    assert (await create(person.key, list_type=type))["type"] == type


async def test_lists_are_found_newest_first_and_by_type(api: Api) -> None:
    person = await api.person()
    assert (await person.key.get("/api/lists")).json() == []
    made = [await create(person.key, type=type) for type in ("ip", "email", "ip")]
    for one in made:
        del one["invalid"]
    assert (await person.key.get("/api/lists")).json() == made[::-1]
    assert (await person.key.get("/api/lists?type=ip")).json() == [made[2], made[0]]
    assert (await person.key.get("/api/lists?type=company")).json() == []
    assert (await person.key.get(f"/api/lists/{made[0]['id']}")).json() == made[0]


async def test_a_type_that_there_is_not_is_refused(api: Api) -> None:
    person = await api.person()
    response = await person.key.get("/api/lists?type=username")
    assert [(e["parameter"], e["code"]) for e in response.json()["errors"]] == [("type", "not_allowed")]


@pytest.mark.parametrize("mount", MOUNTS)
async def test_all_calls_work_at_both_paths(api: Api, mount: str) -> None:
    person = await api.person()
    body = {"name": "both", "targets": ["ada@example.com"]}
    made = (await person.key.post(mount, json=body)).json()
    path = f"{mount}/{made['id']}"
    for name in ("emails", "targets"):
        added = await person.key.post(f"{path}/{name}", json={"emails": [f"{name}@example.com"]})
        assert added.json() == {"added": 1, "duplicates": 0, "invalid": []}
        deleted = await person.key.request("DELETE", f"{path}/{name}", json=[f"{name}@example.com"])
        assert deleted.json() == {"deleted": 1}
        assert (await person.key.get(f"{path}/{name}")).json() == ["ada@example.com"]
    assert (await person.key.patch(path, json={"name": "renamed"})).json()["name"] == "renamed"
    assert [one["id"] for one in (await person.key.get(mount)).json()] == [made["id"]]
    deleted = await person.key.delete(path)
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert (await person.key.get(path)).status_code == 404


async def test_agents_need_a_key_and_other_paths_take_a_session_too(api: Api) -> None:
    person = await api.person()
    assert (await person.session.get("/api/lists")).status_code == 200
    response = await person.session.get("/api/agent/lists")
    assert (response.status_code, response.json()["code"]) == (403, "api_key_required")


@pytest.mark.parametrize("mount", MOUNTS)
async def test_a_key_needs_the_scope_lists(api: Api, mount: str) -> None:
    person = await api.person(scopes=keys.ALL_SCOPES - {"lists"})
    response = await person.key.post(mount, json={"name": "a list"})
    assert (response.status_code, response.json()["code"]) == (403, "insufficient_scope")
    person = await api.person(scopes=["lists"])
    assert (await person.key.post(mount, json={"name": "a list"})).status_code == 201


BAD: dict[str, tuple[Any, str, str]] = {
    "no name": ({}, "/name", "required"),
    "blank name": ({"name": " \n "}, "/name", "too_short"),
    "long name": ({"name": "n" * 201}, "/name", "too_long"),
    "name is no text": ({"name": 7}, "/name", "wrong_type"),
    "unknown type": ({"name": "l", "type": "username"}, "/type", "not_allowed"),
    "two types": ({"name": "l", "type": "ip", "list_type": "email"}, "/list_type", "not_allowed"),
    "unknown field": ({"name": "l", "target": []}, "/target", "unknown_field"),
    "no array": ({"name": "l", "targets": "ada@example.com"}, "/targets", "wrong_type"),
    "a number among them": ({"name": "l", "targets": ["ada@example.com", 7]}, "/targets/1", "wrong_type"),
    "too many": ({"name": "l", "targets": ["ada@example.com"] * 10_001}, "/targets", "too_many_items"),
    "no object": ([], "", "wrong_type"),
}


@pytest.mark.parametrize("case", BAD)
async def test_a_bad_list_is_refused_where_it_is_wrong(api: Api, case: str) -> None:
    body, pointer, code = BAD[case]
    person = await api.person()
    assert problems(await person.key.post("/api/lists", json=body)) == [(pointer, code)]
    assert (await person.key.get("/api/lists")).json() == []


async def test_what_a_get_gives_can_be_sent_back(api: Api) -> None:
    person = await api.person()
    made = await create(person.key, type="domain")
    shown = (await person.key.get(f"/api/lists/{made['id']}")).json()
    renamed = await person.key.patch(f"/api/lists/{made['id']}", json={**shown, "name": "another"})
    assert renamed.json()["name"] == "another"
    copy = await person.key.post("/api/lists", json=shown)
    assert (copy.status_code, copy.json()["type"]) == (201, "domain")
    assert copy.json()["id"] != made["id"]


@pytest.mark.parametrize("field", ["type", "list_type"])
@pytest.mark.parametrize("others", [{}, {"name": "another"}])
async def test_another_type_is_refused_and_changes_nothing(
    api: Api, field: str, others: dict[str, str]
) -> None:
    person = await api.person()
    made = await create(person.key, type="domain")
    path = f"/api/lists/{made['id']}"
    before = (await person.key.get(path)).json()
    refused = await person.key.patch(path, json={**others, field: "ip"})
    assert problems(refused) == [(f"/{field}", "not_allowed")]
    assert "It stays domain." in refused.json()["errors"][0]["message"]
    assert (await person.key.get(path)).json() == before


async def test_a_list_with_some_bad_targets_keeps_the_good_ones_and_names_the_others(api: Api) -> None:
    person = await api.person()
    sent = ["Ada@Example.com", "ada@", "bob@example.com", "ada@example.com"]
    made = await create(person.key, targets=sent)
    assert made["target_count"] == 2
    assert [(one["target"], one["reason"]) for one in made["invalid"]] == [("ada@", "invalid_email")]
    assert await targets(person.key, made["id"]) == ["ada@example.com", "bob@example.com"]


async def test_a_list_with_nothing_but_bad_targets_is_not_made(api: Api) -> None:
    person = await api.person()
    body = {"name": "bad", "type": "ip", "targets": ["a", "b"], "emails": ["c"]}
    wrong = [("/targets/0", "invalid_ip"), ("/targets/1", "invalid_ip"), ("/emails/0", "invalid_ip")]
    assert problems(await person.key.post("/api/lists", json=body)) == wrong
    many = await person.key.post("/api/lists", json={**body, "targets": ["a"] * 10_000, "emails": []})
    assert len(many.json()["errors"]) == 100
    assert (await person.key.get("/api/lists")).json() == []


async def test_a_change_of_name_or_targets_is_seen_in_the_time_of_the_last_change(api: Api) -> None:
    person = await api.person()
    made = await create(person.key, targets=["ada@example.com"])
    times = [made["updated_at"]]

    async def changed() -> bool:
        times.append((await person.key.get(f"/api/lists/{made['id']}")).json()["updated_at"])
        return datetime.fromisoformat(times[-1]) > datetime.fromisoformat(times[-2])

    await person.key.patch(f"/api/lists/{made['id']}", json={"name": "another"})
    assert await changed()
    await person.key.patch(f"/api/lists/{made['id']}", json={"name": "another"})
    await add(person.key, made["id"], ["ada@example.com"])
    await remove(person.key, made["id"], ["bob@example.com"])
    assert not await changed()
    await add(person.key, made["id"], ["bob@example.com"])
    assert await changed()
    await remove(person.key, made["id"], ["bob@example.com"])
    assert await changed()


async def test_what_happens_to_a_list_stands_in_the_audit_log(api: Api, database: Database) -> None:
    person = await api.person()
    made = await create(person.key, name="first", type="ip", targets=["192.0.2.1"])
    await add(person.key, made["id"], ["192.0.2.1", "192.0.2.2", "192.0.2.3"])
    await remove(person.key, made["id"], ["192.0.2.1"])
    await person.key.patch(f"/api/lists/{made['id']}", json={"name": "second"})
    await person.key.delete(f"/api/lists/{made['id']}")
    found = await entries(database, person)
    assert [(entry.action, entry.changes) for entry in found] == [
        ("list.created", {"name": "first", "type": "ip", "target_count": 1}),
        ("list.targets_added", {"added": 2}),
        ("list.targets_removed", {"deleted": 1}),
        ("list.renamed", {"name": {"old": "first", "new": "second"}}),
        ("list.deleted", {"type": "ip", "target_count": 2}),
    ]
    assert {str(entry.target.id) for entry in found} == {made["id"]}
    assert (found[-1].target.name, found[-1].actor.kind) == ("second", "key")


async def test_what_changes_nothing_is_not_in_the_audit_log(api: Api, database: Database) -> None:
    person = await api.person()
    made = await create(person.key, name="first", targets=["ada@example.com"])
    await add(person.key, made["id"], ["ada@example.com"])
    await remove(person.key, made["id"], ["bob@example.com"])
    await person.key.patch(f"/api/lists/{made['id']}", json={"name": "first"})
    assert [entry.action for entry in await entries(database, person)] == ["list.created"]


async def test_an_account_has_at_most_a_thousand_lists_also_when_two_are_made_at_once(
    api: Api, database: Database
) -> None:
    person = await api.person()
    async with database.connection() as connection:
        await connection.execute(
            "insert into lists (id, account_id, name, type, target_count, created_at, updated_at)"
            " select gen_random_uuid(), %s, 'l', 'ip', 0, now(), now() from generate_series(1, 999)",
            (person.account.id,),
        )
    answers = await asyncio.gather(
        *(person.key.post("/api/lists", json={"name": "one more"}) for _ in range(3))
    )
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409]
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"too_many_lists"}
    assert len((await person.key.get("/api/lists")).json()) == 1_000
