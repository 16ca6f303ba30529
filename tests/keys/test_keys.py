"""API keys: what they look like, what they open, and how they end."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from database import Database
from models.accounts import keys
from settings import Settings
from tests.api_server import Api, Person, running
from tests.stacks import eventually

REVOKE_SILENTLY = "update keys set revoked_at = now() where account_id = %s"


async def create(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    response = await client.post("/api/keys", json={"name": "a key", **body})
    assert response.status_code == 201, response.text
    return response.json()


async def status(api: Api, secret: str, path: str = "/api/keys") -> int:
    return (await api.http.get(path, headers={"x-api-key": secret})).status_code


def test_a_key_is_the_prefix_and_32_base62_characters_with_their_checksum() -> None:
    secret = keys.new_secret()
    assert re.fullmatch("vedette_live_[0-9A-Za-z]{32}", secret)
    assert keys.is_well_formed(secret)
    assert keys.new_secret() != secret


@pytest.mark.parametrize("position", range(len(keys.PREFIX), len(keys.PREFIX) + 32))
def test_one_changed_character_breaks_the_checksum(position: int) -> None:
    secret = keys.new_secret()
    other = "a" if secret[position] != "a" else "b"
    assert not keys.is_well_formed(secret[:position] + other + secret[position + 1 :])


@pytest.mark.parametrize(
    "text", ["", "vedette_live_", "vedette_live_" + "a" * 31, "vedette_live_" + "ä" * 32]
)
def test_junk_is_no_key(text: str) -> None:
    assert not keys.is_well_formed(text)


async def test_a_new_key_is_shown_once_and_stored_as_a_hash(api: Api, database: Database) -> None:
    person = await api.person()
    created = await create(person.session, name="  CI  ")
    assert created["name"] == "CI"
    assert created["key_preview"] == f"vedette_live_…{created['key'][-4:]}"
    assert set(created["scopes"]) == keys.DEFAULT_SCOPES
    listed = (await person.session.get("/api/keys")).json()["keys"]
    assert listed[0]["id"] == created["id"]
    assert created["key"] not in str(listed)
    async with database.connection() as connection:
        cursor = await connection.execute("select * from keys where id = %s", (created["id"],))
        assert created["key"].removeprefix(keys.PREFIX) not in str(await cursor.fetchone())


@pytest.mark.parametrize("header", ["authorization", "x-api-key"])
async def test_both_headers_carry_a_key(api: Api, header: str) -> None:
    person = await api.person()
    value = f"Bearer {person.secret}" if header == "authorization" else person.secret
    assert (await api.http.get("/api/keys", headers={header: value})).status_code == 200


async def test_the_same_key_twice_is_fine_and_two_different_ones_are_not(api: Api) -> None:
    one, two = await api.person(), await api.person()
    both = {"authorization": f"Bearer {one.secret}", "x-api-key": one.secret}
    assert (await api.http.get("/api/keys", headers=both)).status_code == 200
    both["x-api-key"] = two.secret
    response = await api.http.get("/api/keys", headers=both)
    assert (response.status_code, response.json()["code"]) == (400, "conflicting_credentials")


async def test_a_session_token_does_not_pass_as_a_key(api: Api) -> None:
    person = await api.person()
    assert await status(api, person.token) == 200  # it is a credential, whichever header it comes in
    response = await person.session.post("/api/agent/ip", json={"ip": "127.0.0.1"})
    assert (response.status_code, response.json()["code"]) == (403, "api_key_required")


async def test_a_key_opens_only_its_scopes(api: Api) -> None:
    person = await api.person()
    created = await create(person.session, scopes=["lookups"])
    assert await status(api, created["key"], "/api/providers") == 200
    response = await api.http.get("/api/credits", headers={"x-api-key": created["key"]})
    assert (response.status_code, response.json()["code"]) == (403, "insufficient_scope")


async def test_a_key_gives_no_scope_that_it_lacks(api: Api) -> None:
    person = await api.person(scopes=["keys", "lookups"])
    assert set((await create(person.key))["scopes"]) == {"lookups"}
    assert set((await create(person.key, scopes=["keys"]))["scopes"]) == {"keys"}
    response = await person.key.post("/api/keys", json={"name": "more", "scopes": ["credits"]})
    assert (response.status_code, response.json()["code"]) == (403, "insufficient_scope")


async def test_a_key_without_the_scope_keys_creates_none(api: Api) -> None:
    person = await api.person(scopes=keys.DEFAULT_SCOPES)
    response = await person.key.post("/api/keys", json={"name": "more"})
    assert (response.status_code, response.json()["code"]) == (403, "insufficient_scope")


async def test_a_key_with_nothing_to_give_by_default_must_name_scopes(api: Api) -> None:
    person = await api.person(scopes=["keys"])
    response = await person.key.post("/api/keys", json={"name": "empty"})
    assert response.status_code == 400
    assert [(e["pointer"], e["code"]) for e in response.json()["errors"]] == [("/scopes", "required")]
    assert (await create(person.key, scopes=["keys"]))["scopes"] == ["keys"]


END = datetime(2099, 5, 1, tzinfo=UTC)


async def ending(api: Api, end: datetime | None) -> httpx.AsyncClient:
    """A client with a key that ends then, if it ends by itself, and may do everything."""
    session = (await api.person()).session
    created = await create(session, scopes=[*keys.ALL_SCOPES], expires_at=end and end.isoformat())
    return await api.client(Authorization=f"Bearer {created['key']}")


@pytest.mark.parametrize(
    ("parents", "asked", "given"),
    [
        (END, {}, END),
        (END, {"expires_at": None}, END),
        (END, {"expires_at": (END - timedelta(days=1)).isoformat()}, END - timedelta(days=1)),
        (END, {"expires_at": END.isoformat()}, END),
        (None, {}, None),
        (None, {"expires_at": END.isoformat()}, END),
    ],
)
async def test_a_key_ends_no_later_than_the_key_that_created_it(
    api: Api, parents: datetime | None, asked: dict[str, Any], given: datetime | None
) -> None:
    expires_at = (await create(await ending(api, parents), **asked))["expires_at"]
    assert (expires_at and datetime.fromisoformat(expires_at)) == given


async def test_a_key_that_would_outlive_its_creator_is_refused_with_the_bound(api: Api) -> None:
    client = await ending(api, END)
    later = (END + timedelta(seconds=1)).isoformat()
    response = await client.post("/api/keys", json={"name": "later", "expires_at": later})
    assert response.status_code == 400
    (error,) = response.json()["errors"]
    assert (error["pointer"], error["code"]) == ("/expires_at", "later_than_parent")
    assert "2099-05-01T00:00:00Z" in error["message"]


async def test_a_session_creates_keys_that_outlive_it(api: Api) -> None:
    person = await api.person()
    assert (await create(person.session))["expires_at"] is None
    assert (await create(person.session, expires_at=END.isoformat()))["expires_at"] is not None


async def test_a_key_outlives_the_revocation_of_its_creator(api: Api) -> None:
    person = await api.person()
    parent = await create(person.session, scopes=["keys"])
    client = await api.client(Authorization=f"Bearer {parent['key']}")
    child = await create(client, scopes=["keys"])
    await person.session.delete(f"/api/keys/{parent['id']}")
    assert (await status(api, parent["key"]), await status(api, child["key"])) == (401, 200)


async def test_a_key_sees_and_revokes_only_keys_that_can_do_no_more(api: Api) -> None:
    person = await api.person(scopes=["keys", "lookups"])
    more = await create(person.session, scopes=["credits", "lookups"])
    less = await create(person.session, scopes=["lookups"])
    assert {key["id"] for key in (await person.session.get("/api/keys")).json()["keys"]} > {more["id"]}
    seen = (await person.key.get("/api/keys")).text
    assert less["id"] in seen and more["id"] not in seen
    for query in ("", "?permanent=true"):
        response = await person.key.delete(f"/api/keys/{more['id']}{query}")
        assert (response.status_code, response.json()["code"]) == (403, "insufficient_scope")
        assert (await person.key.delete(f"/api/keys/{less['id']}{query}")).status_code == 200
    assert await status(api, more["key"], "/api/credits") == 200
    assert (await person.session.delete(f"/api/keys/{more['id']}")).status_code == 200


@pytest.mark.parametrize("form", ["/api/keys/{id}", "/api/keys?id={id}"])
async def test_a_key_may_revoke_itself_and_no_other_without_the_scope_keys(api: Api, form: str) -> None:
    person = await api.person(scopes=["lookups"])
    own, other = [await create(person.session, scopes=["credits"]) for _ in range(2)]
    client = await api.client(Authorization=f"Bearer {own['key']}")
    me = (await client.get("/api/auth/me")).json()["credential"]["id"]
    record = form.format(id=me) + ("&" if "?" in form else "?") + "permanent=true"
    unknown = "00000000-0000-7000-8000-000000000000"
    for path in (form.format(id=other["id"]), record, form.format(id=unknown), form.format(id="x")):
        refused = await client.delete(path)
        assert (refused.status_code, refused.json()["code"]) == (403, "insufficient_scope")
    assert (await client.delete(form.format(id=me))).status_code == 200
    assert await status(api, own["key"], "/api/credits") == 401
    assert await status(api, other["key"], "/api/credits") == 200
    async with api.services.database.connection() as connection:
        cursor = await connection.execute(
            "select actor_id, target_id from audit_log where account_id = %s and action = 'key.revoked'",
            (person.account.id,),
        )
        assert [{*map(str, row.values())} for row in await cursor.fetchall()] == [{me}]


BAD = {
    "no name": ({}, "/name", "required"),
    "blank name": ({"name": "  "}, "/name", "too_short"),
    "unknown scope": ({"name": "k", "scopes": ["root"]}, "/scopes/0", "not_allowed"),
    "no scope": ({"name": "k", "scopes": []}, "/scopes", "too_few_items"),
    "past": ({"name": "k", "expires_at": "2020-01-01T00:00:00Z"}, "/expires_at", "not_in_future"),
    "no zone": ({"name": "k", "expires_at": "2099-01-01T00:00:00"}, "/expires_at", "timezone_missing"),
    "NUL": ({"name": "k\0"}, "", "invalid_text"),
}


@pytest.mark.parametrize("case", BAD)
async def test_a_bad_key_is_refused_where_it_is_wrong(api: Api, case: str) -> None:
    body, pointer, code = BAD[case]
    person = await api.person()
    response = await person.session.post("/api/keys", json=body)
    assert response.status_code == 400
    assert [(error["pointer"], error["code"]) for error in response.json()["errors"]] == [(pointer, code)]


async def test_a_key_stops_when_it_expires_even_while_it_is_remembered(api: Api, long_memory: None) -> None:
    person = await api.person()
    soon = datetime.now(UTC) + timedelta(seconds=4)
    created = await create(person.session, expires_at=soon.isoformat(), scopes=["keys"])
    assert await status(api, created["key"]) == 200
    await eventually(lambda: datetime.now(UTC) > soon)
    assert await status(api, created["key"]) == 401


@pytest.mark.parametrize("form", ["/api/keys/{id}", "/api/keys?id={id}"])
async def test_a_revoked_key_stops_at_once_and_stays_on_record(api: Api, form: str) -> None:
    person = await api.person()
    created = await create(person.session, scopes=["keys"])
    assert await status(api, created["key"]) == 200
    revoked = await person.session.delete(form.format(id=created["id"]))
    assert revoked.json()["success"] is True
    assert await status(api, created["key"]) == 401
    listed = {key["id"]: key for key in (await person.session.get("/api/keys")).json()["keys"]}
    assert listed[created["id"]]["revoked_at"] is not None


async def test_permanent_removes_the_record_too(api: Api) -> None:
    person = await api.person()
    created = await create(person.session, scopes=["keys"])
    await person.session.delete("/api/keys", params={"id": created["id"], "permanent": "true"})
    assert await status(api, created["key"]) == 401
    assert created["id"] not in (await person.session.get("/api/keys")).text
    again = await person.session.delete(f"/api/keys/{created['id']}")
    assert again.status_code == 404


async def test_a_revocation_reaches_the_other_processes_at_once(
    api: Api, settings: Settings, long_memory: None
) -> None:
    async with running(settings) as other:
        person = await api.person()
        created = await create(person.session, scopes=["keys"])
        await asyncio.wait_for(other.services.listener.connected.wait(), 30)
        assert await status(other, created["key"]) == 200
        assert await status(other, created["key"]) == 200  # now from memory
        await person.session.delete(f"/api/keys/{created['id']}")
        async with asyncio.timeout(30):
            while await status(other, created["key"]) != 401:
                await asyncio.sleep(0)


async def test_nothing_is_remembered_while_revocations_cannot_be_heard(settings: Settings) -> None:
    async with running(settings) as api:
        person = await api.person()
        assert await status(api, person.secret) == 200
        await api.services.listener.stop()
        async with api.services.database.connection() as connection:
            await connection.execute(
                "update keys set revoked_at = now() where account_id = %s", (person.account.id,)
            )
        assert await status(api, person.secret) == 401


async def test_what_was_remembered_before_a_reconnect_is_looked_up_again(
    settings: Settings, long_memory: None
) -> None:
    async with running(settings) as api:
        await asyncio.wait_for(api.services.listener.connected.wait(), 30)
        person = await api.person()
        assert await status(api, person.secret) == 200
        async with api.services.database.connection() as connection:
            await connection.execute(
                "update keys set revoked_at = now() where account_id = %s", (person.account.id,)
            )
            assert await status(api, person.secret) == 200  # nobody was told
            before = api.services.listener.connections
            await connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and query like 'listen%'"
            )
        await eventually(lambda: api.services.listener.connections > before)
        assert await status(api, person.secret) == 401


async def test_uses_are_counted(api: Api) -> None:
    person = await api.person()
    for _ in range(7):
        await person.key.get("/api/credits")
    await api.services.housekeeping.flush()
    (key,) = (await person.session.get("/api/keys")).json()["keys"]
    assert key["total_requests"] == 7
    assert datetime.fromisoformat(key["last_used"]) > datetime.now(UTC) - timedelta(minutes=1)


async def test_a_remembered_key_costs_no_statement(api: Api, database: Database) -> None:
    person = await api.person()
    await asyncio.wait_for(api.services.listener.connected.wait(), 30)
    assert await status(api, person.secret, "/api/auth/me") == 200
    async with database.connection() as connection:
        await connection.execute("alter table keys rename to keys_away")
        try:
            response = await api.http.post("/api/agent/ip", headers={"x-api-key": person.secret}, json={})
        finally:
            await connection.execute("alter table keys_away rename to keys")
    assert response.status_code == 400  # it came as far as the body


async def test_an_account_has_at_most_a_thousand_keys(api: Api, database: Database) -> None:
    person = await api.person()
    async with database.connection() as connection:
        await connection.execute(
            "insert into keys (id, account_id, name, hash, preview, scopes, created_at)"
            " select gen_random_uuid(), %s, 'k', decode(md5(n::text || %s), 'hex'), '', '{}', now()"
            " from generate_series(2, 1000) n",
            (person.account.id, str(person.account.id)),
        )
    response = await person.session.post("/api/keys", json={"name": "one more"})
    assert (response.status_code, response.json()["code"]) == (409, "too_many_keys")


@pytest.mark.parametrize("number", [99999999999999, "5", 1.5, True])
async def test_a_number_is_no_time_for_a_key_to_end(person: Person, number: Any) -> None:
    response = await person.session.post("/api/keys", json={"name": "n", "expires_at": number})
    [error] = response.json()["errors"]
    assert (response.status_code, error["pointer"], error["code"]) == (400, "/expires_at", "wrong_type")
