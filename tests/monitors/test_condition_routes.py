"""Conditions on changes as they are sent, shown and kept, at monitors and at lists."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from database import Database
from models.monitors import queue
from tests.api_server import Api, Person
from tests.lists.making import create as create_list
from tests.monitors.asking import claim, create, given, problems, start

ABOVE = {"field": "threat.abuse_score", "above": 50}


async def test_conditions_are_shown_as_they_were_sent(api: Api) -> None:
    person = await api.person()
    when = [
        ABOVE,
        {"field": "threat.last_reported_at", "below": "2026-01-01"},
        {"field": "malware.malicious_count", "crosses": 2.5},
        {"field": "security.is_tor", "becomes": True},
        {"field": "hostname", "becomes": None},
        {"field": "hostname", "matches": "*.example.com"},
        {"field": "threat.scanner_name", "contains": "mirai"},
        {"field": "verdict.reasons.code", "matches": "tor*"},
        {"field": "verdict.reasons", "changes_by": 2},
    ]  # fmt: skip
    made = await create(person.key, monitor_type="ip", when=when)
    assert made["when"] == when
    path = f"/api/monitors/{made['id']}"
    assert (await person.key.put(path, json=await given(person.key, path))).json()["when"] == when
    assert (await person.key.patch(path, json={"name": "another"})).json()["when"] == when
    assert (await person.key.patch(path, json={"when": [ABOVE]})).json()["when"] == [ABOVE]
    assert (await person.key.patch(path, json={"when": []})).json()["when"] == []


@pytest.mark.parametrize(
    ("condition", "place", "code"),
    [
        ({"field": "threat.abuse_scor", "above": 1}, "/when/0/field", "unknown_field"),
        ({"field": "threat", "above": 1}, "/when/0/field", "unknown_field"),
        ({"field": "timezone.utc_offset", "becomes": "+01:00"}, "/when/0/field", "not_tracked"),
        ({"field": "hostname", "above": 1}, "/when/0/above", "wrong_operator"),
        ({"field": "verdict.reasons", "above": 1}, "/when/0/above", "wrong_operator"),
        ({"field": "threat.abuse_score", "crosses": "2026-01-01"}, "/when/0/crosses", "wrong_operator"),
        ({"field": "hostname", "below": "not a date"}, "/when/0/below", "wrong_operator"),
        ({"field": "security.is_tor", "contains": "x"}, "/when/0/contains", "wrong_operator"),
        ({"field": "security.is_tor", "changes_by": 1}, "/when/0/changes_by", "wrong_operator"),
        ({"field": "hostname"}, "/when/0", "one_operator"),
        ({"field": "hostname", "matches": "x", "becomes": "y"}, "/when/0", "one_operator"),
        ({"field": "hostname", "is": "x"}, "/when/0/is", "unknown_field"),
        ({"above": 1}, "/when/0/field", "required"),
    ],
)  # fmt: skip
async def test_a_condition_that_can_never_hold_is_refused_where_it_is_wrong(
    api: Api, condition: dict[str, Any], place: str, code: str
) -> None:
    person = await api.person()
    body = {"name": "m", "monitor_type": "ip", "when": [condition]}
    assert (place, code) in problems(await person.key.post("/api/monitors", json=body))
    listed = {"name": "l", "type": "ip", "when": [condition]}
    assert (place, code) in problems(await person.key.post("/api/lists", json=listed))


async def test_a_condition_with_two_operators_is_refused_with_their_names(api: Api) -> None:
    person = await api.person()
    body = {"name": "m", "monitor_type": "ip", "when": [{**ABOVE, "below": 90}]}
    [error] = (await person.key.post("/api/monitors", json=body)).json()["errors"]
    assert (error["pointer"], error["code"]) == ("/when/0", "one_operator")
    assert "here are above and below. Keep one." in error["message"]


async def test_a_condition_on_a_field_that_is_not_tracked_is_refused(api: Api) -> None:
    person = await api.person()
    made = await create(person.key, monitor_type="ip", when=[ABOVE])
    path = f"/api/monitors/{made['id']}"
    for body in ({"tracked_fields": ["hostname"]}, {"ignored_fields": ["threat"]}):
        response = await person.key.patch(path, json=body)
        assert problems(response) == [("/when/0/field", "not_tracked")]


async def test_a_list_has_conditions_for_monitors_without_their_own(api: Api, database: Database) -> None:
    person = await api.person(credits=10)
    listed = await create_list(person.key, type="ip", targets=["192.0.2.1"], when=[ABOVE])
    assert listed["when"] == [ABOVE]
    made = await create(person.key, monitor_type="ip", data_source_ref=listed["id"], data_source_type="list")
    assert (await conditions(person, database, made["id"])) == [ABOVE]
    below = {"field": "threat.abuse_score", "below": 5}
    changed = await person.key.patch(f"/api/lists/{listed['id']}", json={"when": [below]})
    assert (changed.json()["when"], changed.json()["name"]) == ([below], "a list")
    assert (await conditions(person, database, made["id"])) == [below]
    await person.key.patch(f"/api/monitors/{made['id']}", json={"when": [ABOVE]})
    assert (await conditions(person, database, made["id"])) == [ABOVE]


async def conditions(person: Person, database: Database, monitor_id: str) -> Any:
    """The conditions that a run has, which is then cancelled."""
    run_id = await start(person, monitor_id)
    await claim(database)
    async with database.connection() as connection:
        chunk = await queue.open_chunk(connection, UUID(run_id), 0, 200)
    assert chunk is not None
    await person.key.post(f"/api/monitors/{monitor_id}/runs/{run_id}/cancel")
    return chunk.when


async def test_a_change_of_a_list_says_something(api: Api) -> None:
    person = await api.person()
    path = f"/api/lists/{(await create_list(person.key))['id']}"
    assert problems(await person.key.patch(path, json={})) == [("/name", "required")]
