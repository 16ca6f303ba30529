"""Saving workflows while others do things: a check may take long, and everybody else is served meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import pytest

from database import Database
from models.audit import Actor
from models.automations import automations
from models.installation.key_rotation import KEPT, reseal_batch
from models.runs import acceptance
from models.runs.acceptance import RunRequest
from sealing import Keyring
from services import checking
from services.checking import SubmittedWorkflow
from tests.api_server import Api, Person
from tests.automations.engine import NewTarget, transform, webhook
from tests.automations.workflows import create, post, problem, wrong
from tests.stacks import eventually


class Gate:
    """Holds up the checks of documents with the name `held`."""

    def __init__(self) -> None:
        self.held = 0
        self.open = asyncio.Event()
        self._check = checking.check

    async def check(
        self,
        pool: Any,
        database: Database,
        keyring: Keyring,
        submitted: SubmittedWorkflow,
        rules: Any,
    ) -> Any:
        found = await self._check(pool, database, keyring, submitted, rules)
        if submitted.document.get("name") == "held":
            self.held += 1
            async with asyncio.timeout(30):
                await self.open.wait()
        return found


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Generator[Gate]:
    gate = Gate()
    monkeypatch.setattr(checking, "check", gate.check)
    yield gate
    gate.open.set()


async def is_held(gate: Gate) -> None:
    await eventually(lambda: gate.held > 0, what="a check is under way")


async def test_many_long_checks_at_once_hold_nobody_up(api: Api, person: Person, gate: Gate) -> None:
    made = await create(person)
    path = f"/api/workflows/{made['id']}"
    document = {"name": "held", "steps": []}
    checks = [
        asyncio.create_task(request)
        for _ in range(5)
        for request in (
            person.key.patch(path, json={"name": "held"}),
            person.key.post("/api/workflows", json=document),
        )
    ]
    checks.append(asyncio.create_task(person.key.post("/api/workflows/validate", json=document)))
    await is_held(gate)
    assert (await post(api, made["webhook_url"], json={})).status_code == 202
    assert (await person.key.get(path)).json()["name"] == "test"
    gate.open.set()
    assert {response.status_code for response in await asyncio.gather(*checks)} == {200, 201}
    assert (await person.key.get(path)).json()["version"] == 6


async def test_of_two_changes_at_once_neither_is_lost(person: Person, gate: Gate) -> None:
    path = f"/api/workflows/{(await create(person))['id']}"
    slow = asyncio.create_task(person.key.patch(path, json={"name": "held"}))
    await is_held(gate)
    await person.key.patch(path, json={"description": "meanwhile"})
    gate.open.set()
    after = (await slow).json()
    assert (after["name"], after["description"], after["version"]) == ("held", "meanwhile", 3)


async def test_a_change_for_a_version_that_is_replaced_during_its_check_is_refused(
    person: Person, gate: Gate
) -> None:
    path = f"/api/workflows/{(await create(person))['id']}"
    slow = asyncio.create_task(person.key.patch(path, json={"name": "held"}, headers={"If-Match": '"v1"'}))
    await is_held(gate)
    await person.key.patch(path, json={"description": "meanwhile"})
    gate.open.set()
    assert problem(await slow) == (412, "version_mismatch")


async def test_a_workflow_that_is_deleted_while_its_change_is_checked_is_not_found(
    person: Person, gate: Gate
) -> None:
    path = f"/api/workflows/{(await create(person))['id']}"
    slow = asyncio.create_task(person.key.patch(path, json={"name": "held"}))
    await is_held(gate)
    await person.key.delete(path)
    gate.open.set()
    assert problem(await slow) == (404, "not_found")


async def test_a_secret_that_is_deleted_during_the_check_is_found_missing(person: Person, gate: Gate) -> None:
    await person.key.post("/api/workflows/secrets", json={"name": "GONE", "value": "canary-value"})
    steps = [webhook("https://example.com", body="{{ secrets.GONE }}")]
    slow = asyncio.create_task(person.key.post("/api/workflows", json={"name": "held", "steps": steps}))
    await is_held(gate)
    assert (await person.key.delete("/api/workflows/secrets/GONE")).status_code == 200
    gate.open.set()
    assert wrong(await slow) == {("/steps/0/config/body", "unknown_secret")}


async def test_events_are_accepted_while_their_workflow_is_locked(
    database: Database, new_target: NewTarget
) -> None:
    target = await new_target([transform("a", "1")])
    actor = Actor(target.account_id, "system", name="test")

    async def accepted() -> None:
        async with asyncio.timeout(10), database.connection() as other:
            await acceptance.accept(other, [RunRequest(target, "webhook", 1)])

    async with database.transaction() as connection:
        kept = KEPT["ingest_tokens"]
        assert (await reseal_batch(connection, Keyring(["a newer key"]), kept, kept.start)).unreadable
        await accepted()
    async with database.transaction() as connection:
        await automations.delete(connection, actor, target.automation_id)
        await accepted()
