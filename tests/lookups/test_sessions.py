"""Lookups by sessions: the same as those by keys, at paths of their own."""

from __future__ import annotations

import pytest

from tests.api_server import Person
from tests.lookups.paths import PATHS

CREDITS = 100


@pytest.mark.parametrize("kind", PATHS)
async def test_a_session_gets_what_a_key_gets(kind: str, person: Person) -> None:
    name, body = PATHS[kind]
    of_key = await person.key.post(f"/api/agent/{name}", json=body)
    for client in (person.session, person.key):
        answer = await client.post(f"/api/lookups/{kind}", json=body)
        assert answer.status_code == of_key.status_code
        assert answer.json().keys() == of_key.json().keys()
        assert answer.json().get("credits") == of_key.json().get("credits")


@pytest.mark.parametrize("kind", PATHS)
async def test_paths_for_keys_refuse_sessions(kind: str, person: Person) -> None:
    name, body = PATHS[kind]
    refused = await person.session.post(f"/api/agent/{name}", json=body)
    assert (refused.status_code, refused.json()["code"]) == (403, "api_key_required")


@pytest.mark.parametrize("kind", ["ip", "breach", "phone"])
async def test_a_lookup_by_a_session_counts_under_the_limit_of_its_kind(kind: str, person: Person) -> None:
    name, body = PATHS[kind]
    by_session = await person.session.post(f"/api/lookups/{kind}", json=body)
    by_key = await person.key.post(f"/api/agent/{name}", json=body)
    assert by_session.headers["ratelimit-policy"] == by_key.headers["ratelimit-policy"]
    assert by_session.headers["ratelimit"] != by_key.headers["ratelimit"]


async def test_a_session_pays_once_for_an_idempotency_key(person: Person) -> None:
    body, key = {"phone": "+14155552671"}, {"Idempotency-Key": "once"}
    first = await person.session.post("/api/lookups/phone", json=body, headers=key)
    again = await person.session.post("/api/lookups/phone", json=body, headers=key)
    assert first.json() == again.json() and first.json()["credits"] == 1
    assert (await person.session.get("/api/credits")).json()["balance"] == 99
