"""Secrets of webhooks are replaced, and the one before signs for a while."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from database import Database
from models.webhooks import endpoints
from sealing import Keyring
from tests.api_server import Person
from tests.webhooks.senders import PATH, webhook


async def rotate(person: Person, webhook_id: str, **options: Any) -> dict[str, Any]:
    response = await person.key.post(f"{PATH}/{webhook_id}/rotate-secret", **options)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ({}, 86_400), ({"json": {}}, 86_400), ({"json": {"overlap_seconds": 60}}, 60),
        ({"json": {"overlap_seconds": 604_800}}, 604_800),
    ],
    ids=str,
)  # fmt: skip
async def test_the_secret_before_signs_for_as_long_as_was_asked(
    person: Person, database: Database, keyring: Keyring, options: dict[str, Any], seconds: int
) -> None:
    created = await webhook(person)
    before = datetime.now(UTC)
    rotated = await rotate(person, created["id"], **options)
    after = datetime.now(UTC)
    assert rotated.keys() == {"secret", "previous_expires_at"}
    until = datetime.fromisoformat(rotated["previous_expires_at"])
    assert before <= until - timedelta(seconds=seconds) <= after
    async with database.connection() as connection:
        _, sending = await endpoints.load_sending(connection, keyring, person.account.id, UUID(created["id"]))
    both = [rotated["secret"], created["secret"]]
    assert sending.secrets_at(until - timedelta(seconds=1)) == both
    assert sending.secrets_at(until) == both[:1]


async def test_without_overlap_only_the_new_secret_signs(
    person: Person, database: Database, keyring: Keyring
) -> None:
    created = await webhook(person)
    await rotate(person, created["id"], json={"overlap_seconds": 604_800})
    rotated = await rotate(person, created["id"], json={"overlap_seconds": 0})
    async with database.connection() as connection:
        _, sending = await endpoints.load_sending(connection, keyring, person.account.id, UUID(created["id"]))
    assert sending.secrets_at(datetime.now(UTC)) == [rotated["secret"]]


@pytest.mark.parametrize("seconds", [-1, 604_801, "60", 1.5, None])
async def test_a_bad_overlap_is_refused(person: Person, seconds: Any) -> None:
    created = await webhook(person)
    response = await person.key.post(
        f"{PATH}/{created['id']}/rotate-secret", json={"overlap_seconds": seconds}
    )
    assert response.status_code == 400
    assert [error["pointer"] for error in response.json()["errors"]] == ["/overlap_seconds"]
