"""Secrets over the API: stored sealed, shown by name, never by value."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from database import Database
from language.templates import compile_template
from models import audit
from models.accounts import secrets
from models.accounts.secrets import MAX_SECRETS
from sealing import Keyring, UnsealError
from tests.api_server import Api, Person
from tests.stacks import eventually

PATH = "/api/workflows/secrets"
VALUE = "canary-value-ä-1"


async def store(person: Person, name: str = "TOKEN", value: str = VALUE) -> httpx.Response:
    response = await person.key.post(PATH, json={"name": name, "value": value})
    assert response.status_code in (200, 201), response.text
    return response


async def listed(person: Person) -> list[dict[str, Any]]:
    return (await person.key.get(PATH)).json()["secrets"]


async def a_workflow(person: Person, *used: str, name: str = "CRM sync") -> str:
    """A workflow whose steps use these secrets."""
    steps = [
        {
            "id": secret,
            "type": "webhook",
            "config": {"url": "https://example.com", "headers": {"X-Key": f"{{{{ secrets.{secret} }}}}"}},
        }
        for secret in used
    ]
    created = await person.key.post("/api/workflows", json={"name": name, "steps": steps})
    assert created.status_code == 201, created.text
    return created.json()["id"]


async def opened(person: Person, database: Database, keyring: Keyring, *names: str) -> dict[str, str]:
    async with database.connection() as connection:
        return await secrets.load_values(connection, keyring, person.account.id, names)


class TestStoring:
    async def test_a_new_secret_is_answered_with_its_name_and_when_it_was_made(self, person: Person) -> None:
        response = await store(person)
        assert response.status_code == 201
        assert response.json().keys() == {"name", "created_at"}
        assert response.json()["name"] == "TOKEN"
        assert datetime.fromisoformat(response.json()["created_at"]).tzinfo is not None

    @pytest.mark.parametrize(
        "value", ["x", "line\nbreak", "  spaces  ", "ünï→🔑", '"quoted\\"', "v" * 10_000]
    )
    async def test_a_value_comes_out_as_it_went_in(
        self, person: Person, database: Database, keyring: Keyring, value: str
    ) -> None:
        await store(person, value=value)
        assert await opened(person, database, keyring, "TOKEN", "MISSING") == {"TOKEN": value}

    async def test_no_answer_holds_a_value(self, person: Person, database: Database) -> None:
        answers = [await store(person), await store(person)]
        await a_workflow(person, "TOKEN")
        answers += [
            await person.key.get(PATH),
            await person.key.post(PATH, json={"name": "1", "value": VALUE}),
            await person.key.post(PATH, json={"name": "TOKEN", "value": [VALUE]}),
            await person.key.post(PATH, json={"name": "TOKEN", "value": VALUE + "x" * 10_000}),
            await person.key.post(PATH, json={"name": "TOKEN", "valeu": VALUE}),
            await person.key.delete(f"{PATH}/TOKEN"),
            await person.key.delete(f"{PATH}/TOKEN", params={"force": True}),
        ]
        assert [answer.status_code for answer in answers] == [201, 200, 200, 400, 400, 400, 400, 409, 200]
        assert not [answer.text for answer in answers if "canary" in answer.text]

    async def test_the_table_holds_no_value(self, person: Person, database: Database) -> None:
        await store(person)
        async with database.connection() as connection:
            cursor = await connection.execute(
                "select sealed, s::text as row from secrets s where account_id = %s", (person.account.id,)
            )
            row = await cursor.fetchone()
        assert row is not None
        assert b"canary" not in row["sealed"] and "canary" not in row["row"]

    async def test_a_sealed_value_opens_under_its_own_name_only(
        self, person: Person, database: Database, keyring: Keyring
    ) -> None:
        await store(person)
        async with database.connection() as connection:
            await connection.execute("update secrets set name = 'OTHER' where name = 'TOKEN'")
        with pytest.raises(UnsealError):
            await opened(person, database, keyring, "OTHER")

    async def test_the_same_name_again_replaces_the_value(
        self, person: Person, database: Database, keyring: Keyring
    ) -> None:
        first = await store(person)
        second = await store(person, value="rotated")
        assert (second.status_code, second.json()) == (200, first.json())
        (secret,) = await listed(person)
        assert secret["created_at"] == first.json()["created_at"] < secret["updated_at"]
        assert await opened(person, database, keyring, "TOKEN") == {"TOKEN": "rotated"}

    async def test_names_are_trimmed_and_tell_cases_apart(self, person: Person) -> None:
        await store(person, " token ")
        await store(person, "Token")
        assert [secret["name"] for secret in await listed(person)] == ["Token", "token"]

    @pytest.mark.parametrize(
        ("body", "pointer", "code"),
        [
            ({"value": "v"}, "/name", "required"),
            ({"name": "N"}, "/value", "required"),
            ({"name": "", "value": "v"}, "/name", "too_short"),
            ({"name": "N" * 65, "value": "v"}, "/name", "too_long"),
            ({"name": "1N", "value": "v"}, "/name", "invalid_format"),
            ({"name": "A-B", "value": "v"}, "/name", "invalid_format"),
            ({"name": "A.B", "value": "v"}, "/name", "invalid_format"),
            ({"name": "Ä", "value": "v"}, "/name", "invalid_format"),
            ({"name": "A\nB", "value": "v"}, "/name", "invalid_format"),
            ({"name": 5, "value": "v"}, "/name", "wrong_type"),
            ({"name": "N", "value": ""}, "/value", "too_short"),
            ({"name": "N", "value": "v" * 10_001}, "/value", "too_long"),
            ({"name": "N", "value": 5}, "/value", "wrong_type"),
            ({"name": "N", "value": "v", "note": ""}, "/note", "unknown_field"),
        ],
    )
    async def test_what_does_not_fit_is_refused_at_its_place(
        self, person: Person, body: dict[str, Any], pointer: str, code: str
    ) -> None:
        response = await person.key.post(PATH, json=body)
        assert response.status_code == 400
        assert [(error["pointer"], error["code"]) for error in response.json()["errors"]] == [(pointer, code)]
        assert await listed(person) == []

    async def test_a_name_of_64_characters_fits(self, person: Person) -> None:
        assert (await store(person, "N" * 64)).status_code == 201

    async def test_an_account_has_at_most_a_thousand(self, person: Person, database: Database) -> None:
        async with database.connection() as connection:
            await connection.execute(
                "insert into secrets (account_id, name, sealed, created_at, updated_at)"
                " select %s, 'N' || n, '', now(), now() from generate_series(1, %s) n",
                (person.account.id, MAX_SECRETS),
            )
        response = await person.key.post(PATH, json={"name": "ONE_MORE", "value": "v"})
        assert (response.status_code, response.json()["code"]) == (409, "too_many_secrets")
        assert (await store(person, "N1")).status_code == 200


@given(name=st.from_regex(secrets.NAME, fullmatch=True) | st.sampled_from(["true", "null", "length", "_"]))
def test_every_name_that_fits_can_be_used_in_a_template(name: str) -> None:
    template = compile_template(f"Bearer {{{{ secrets.{name} }}}}")
    assert template.secrets == (name,)
    assert template.render({"secrets": {name: "v"}}) == "Bearer v"


class TestUse:
    async def test_a_secret_says_which_workflows_use_it(self, person: Person, database: Database) -> None:
        for name in ("USED", "OTHER", "UNUSED"):
            await store(person, name)
        first = await a_workflow(person, "USED", "OTHER", name="first")
        second = await a_workflow(person, "USED", name="second")
        assert {secret["name"]: secret["used_by"] for secret in await listed(person)} == {
            "UNUSED": [],
            "OTHER": [{"id": first, "name": "first"}],
            "USED": [{"id": second, "name": "second"}, {"id": first, "name": "first"}],
        }

    async def test_old_versions_and_deleted_workflows_do_not_count(
        self, person: Person, database: Database
    ) -> None:
        await store(person)
        changed = await a_workflow(person, "TOKEN")
        await person.key.patch(f"/api/workflows/{changed}", json={"steps": []})
        deleted = await a_workflow(person, "TOKEN")
        await person.key.delete(f"/api/workflows/{deleted}")
        (secret,) = await listed(person)
        assert secret["used_by"] == []

    async def test_one_in_use_is_not_deleted_and_the_answer_names_the_workflows(
        self, person: Person, database: Database
    ) -> None:
        await store(person)
        ids = [await a_workflow(person, "TOKEN", name=name) for name in "abcd"]
        problem = (await person.key.delete(f"{PATH}/TOKEN")).json()
        assert (problem["status"], problem["code"]) == (409, "secret_in_use")
        assert "“d”, “c”, “b” and 1 more" in problem["message"]
        assert [use["id"] for use in problem["used_by"]] == ids[::-1]
        assert len(await listed(person)) == 1

    @pytest.mark.parametrize(
        ("path", "request_body", "query"),
        [
            (f"{PATH}/TOKEN", None, {"force": "true"}),
            (PATH, {"name": "TOKEN"}, {"force": "true"}),
            (PATH, {"name": "TOKEN", "force": True}, None),
        ],
    )
    async def test_with_force_it_is(
        self, person: Person, database: Database, path: str, request_body: Any, query: Any
    ) -> None:
        await store(person)
        await a_workflow(person, "TOKEN")
        response = await person.key.request("DELETE", path, json=request_body, params=query)
        assert (response.status_code, response.json()["success"]) == (200, True)
        assert await listed(person) == []

    async def test_a_workflow_being_stored_with_it_holds_its_deletion_up(
        self, person: Person, database: Database
    ) -> None:
        await store(person)
        workflow = await a_workflow(person)
        async with database.transaction() as connection:
            assert await secrets.hold(connection, person.account.id, ["TOKEN", "TOKEN"])
            deletion = asyncio.create_task(person.key.delete(f"{PATH}/TOKEN"))
            await waits_for_a_lock(database)
            await connection.execute(
                "update automation_versions set secrets = '{TOKEN}' where automation_id = %s", (workflow,)
            )
        assert (await deletion).json()["code"] == "secret_in_use"

    async def test_one_that_is_only_looked_at_can_be_deleted_at_once(
        self, person: Person, database: Database
    ) -> None:
        await store(person)
        async with database.transaction() as connection:
            assert await secrets.list_names(connection, person.account.id) == {"TOKEN"}
            async with asyncio.timeout(10):
                assert (await person.key.delete(f"{PATH}/TOKEN")).status_code == 200
            assert not await secrets.hold(connection, person.account.id, ["TOKEN"])


async def waits_for_a_lock(database: Database) -> None:
    async def waits() -> bool:
        async with database.connection() as connection:
            cursor = await connection.execute(
                "select from pg_stat_activity where datname = current_database()"
                " and wait_event_type = 'Lock' and query like '%from secrets%'"
            )
            return await cursor.fetchone() is not None

    await eventually(waits, what="the deletion waits")


class TestDeleting:
    @pytest.mark.parametrize(("path", "body"), [(f"{PATH}/TOKEN", None), (PATH, {"name": "TOKEN"})])
    async def test_both_forms_delete(self, person: Person, path: str, body: Any) -> None:
        await store(person)
        response = await person.key.request("DELETE", path, json=body)
        assert (response.status_code, response.json()["success"]) == (200, True)
        assert await listed(person) == []
        assert (await person.key.request("DELETE", path, json=body)).status_code == 404

    @pytest.mark.parametrize("name", ["NOBODYS", "not-a-name", "%00", "a%2Fb", "%FF", "N" * 5000])
    async def test_a_name_that_nobody_has_is_not_found(self, person: Person, name: str) -> None:
        response = await person.key.delete(f"{PATH}/{name}")
        assert (response.status_code, response.json()["code"]) == (404, "not_found")


class TestAccounts:
    async def test_anothers_secret_is_unknown(
        self, api: Api, person: Person, database: Database, keyring: Keyring
    ) -> None:
        stranger = await api.person()
        await store(person)
        await a_workflow(person, "TOKEN")
        assert await listed(stranger) == []
        assert await opened(stranger, database, keyring, "TOKEN") == {}
        async with database.connection() as connection:
            assert await secrets.list_names(connection, stranger.account.id) == frozenset()
        for body in ({"name": "TOKEN"}, {"name": "TOKEN", "force": True}):
            assert (await stranger.key.request("DELETE", PATH, json=body)).status_code == 404
        assert len(await listed(person)) == 1

    async def test_two_accounts_have_a_secret_of_the_same_name(
        self, api: Api, person: Person, database: Database, keyring: Keyring
    ) -> None:
        other = await api.person()
        await store(person, value="one")
        await a_workflow(person, "TOKEN")
        assert (await store(other, value="two")).status_code == 201
        assert await opened(person, database, keyring, "TOKEN") == {"TOKEN": "one"}
        assert await opened(other, database, keyring, "TOKEN") == {"TOKEN": "two"}
        assert (await listed(other))[0]["used_by"] == []

    async def test_a_key_needs_the_scope_workflows(self, api: Api) -> None:
        person = await api.person(scopes=["lookups", "keys"])
        answers = [
            await person.key.get(PATH),
            await person.key.post(PATH, json={"name": "N", "value": "v"}),
            await person.key.request("DELETE", PATH, json={"name": "N"}),
            await person.key.delete(f"{PATH}/N"),
        ]
        assert [answer.json()["code"] for answer in answers] == ["insufficient_scope"] * 4


async def test_the_path_is_not_taken_for_a_workflows(person: Person) -> None:
    response = await person.key.put(PATH, json={"name": "N"})
    assert (response.status_code, response.headers["allow"]) == (405, "DELETE, GET, HEAD, POST")


async def test_every_change_is_audited_without_the_value(person: Person, database: Database) -> None:
    await store(person)
    await store(person, value="canary-2")
    workflow = await a_workflow(person, "TOKEN")
    await person.session.delete(f"{PATH}/TOKEN", params={"force": True})
    async with database.connection() as connection:
        entries = await audit.list_entries(connection, person.account.id, target_kind="secret")
    assert [(entry.action, entry.actor.kind, entry.changes) for entry in entries] == [
        ("secret.deleted", "session", {"used_by": [workflow]}),
        ("secret.replaced", "key", None),
        ("secret.created", "key", None),
    ]
    assert {entry.target.name for entry in entries} == {"TOKEN"}
    assert "canary" not in "".join(entry.model_dump_json() for entry in entries)


async def test_a_refused_change_leaves_no_audit_entry(person: Person, database: Database) -> None:
    await store(person)
    await a_workflow(person, "TOKEN")
    await person.key.delete(f"{PATH}/TOKEN")
    async with database.connection() as connection:
        entries = await audit.list_entries(connection, person.account.id, target_kind="secret")
    assert [entry.action for entry in entries] == ["secret.created"]


async def test_an_account_that_goes_takes_its_secrets_along(person: Person, database: Database) -> None:
    await store(person)
    async with database.transaction() as connection:
        await connection.execute("delete from accounts where id = %s", (person.account.id,))
        cursor = await connection.execute("select from secrets where account_id = %s", (person.account.id,))
        assert await cursor.fetchone() is None
