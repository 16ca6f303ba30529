"""The audit log: every change says who made it, in its own transaction, without secrets."""

from __future__ import annotations

from uuid import uuid4

import psycopg
import pytest

from database import Database
from models import audit
from models.accounts import keys
from models.audit import Actor, AuditView, Target
from tests.api_server import PASSWORD, Api, Person


async def latest(database: Database, person: Person) -> AuditView:
    async with database.connection() as connection:
        return (await audit.list_entries(connection, person.account.id))[0]


async def test_creating_and_revoking_a_key_is_recorded(api: Api, database: Database) -> None:
    person = await api.person()
    response = await person.session.post(
        "/api/keys", json={"name": "CI", "scopes": ["lookups"]}, headers={"x-request-id": "audited-request"}
    )
    created = response.json()
    entry = await latest(database, person)
    assert (entry.action, entry.target.kind, str(entry.target.id)) == ("key.created", "key", created["id"])
    assert (entry.actor.kind, entry.actor.name) == ("session", person.account.email)
    assert (entry.request_id, entry.ip) == ("audited-request", "127.0.0.1")
    assert entry.changes == {"name": "CI", "scopes": ["lookups"], "expires_at": None}
    await person.key.delete(f"/api/keys/{created['id']}")
    entry = await latest(database, person)
    assert (entry.action, entry.actor.kind, entry.actor.name) == ("key.revoked", "key", "test")


async def test_passwords_sessions_and_credit_settings_are_recorded(api: Api, database: Database) -> None:
    person = await api.person()
    body = {"current_password": PASSWORD, "new_password": "another long password"}
    await person.session.post("/api/auth/password", json=body)
    entry = await latest(database, person)
    assert (entry.action, entry.changes) == ("account.password_changed", {"sessions_ended": 0})
    wanted = {"enabled": True, "threshold": 10, "amount": 100, "monthly_cap": None}
    await person.session.put("/api/credits/auto-topup", json=wanted)
    entry = await latest(database, person)
    assert entry.action == "credits.auto_topup_changed"
    assert entry.changes is not None
    assert entry.changes["amount"] == {"old": 0, "new": 100}
    await person.session.post("/api/auth/logout")
    assert (await latest(database, person)).action == "session.ended"


async def test_a_change_that_fails_leaves_no_entry(api: Api, database: Database) -> None:
    person = await api.person()
    before = await latest(database, person)
    await person.session.delete(f"/api/keys/{uuid4()}")
    with pytest.raises(RuntimeError):
        async with database.transaction() as connection:
            await keys.create_key(connection, Actor(person.account.id, "system"), "never", ["lookups"], None)
            raise RuntimeError
    assert await latest(database, person) == before


def test_secrets_in_changes_are_masked_at_any_depth() -> None:
    changes = {
        "name": "n",
        "Password": "p",
        "steps": [{"config": {"secret": "s", "url": "u"}}],
        "value": {"a": 1},
    }
    assert audit.mask_secrets(changes) == {
        "name": "n", "Password": "***", "steps": [{"config": {"secret": "***", "url": "u"}}], "value": "***",
    }  # fmt: skip


async def test_entries_are_written_once(api: Api, database: Database) -> None:
    await api.person()
    async with database.connection() as connection:
        with pytest.raises(psycopg.errors.RestrictViolation):
            await connection.execute("update audit_log set actor_name = 'nobody'")


async def test_entries_are_found_by_target_and_paged(api: Api, database: Database) -> None:
    person = await api.person()
    actor = Actor(account_id=person.account.id, kind="system", name="system")
    target = Target("thing", uuid4(), "t")
    async with database.transaction() as connection:
        for number in range(5):
            await audit.record(connection, actor, f"thing.changed_{number}", target)
        await audit.record(connection, actor, "thing.changed", Target("thing", uuid4()))
    async with database.connection() as connection:
        found = await audit.list_entries(
            connection, person.account.id, target_kind="thing", target_id=target.id, limit=3
        )
        rest = await audit.list_entries(
            connection, person.account.id, target_kind="thing", target_id=target.id, before=found[-1].id
        )
    assert (len(found), len(rest)) == (3, 2)
    assert {entry.action for entry in found + rest} == {f"thing.changed_{number}" for number in range(5)}
