"""Schedules over HTTP: when a workflow runs next, and what is wrong with one before it is saved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from tests.api_server import Person
from tests.automations.workflows import create, problem, wrong

EVERY = {"every": {"minutes": 90}}
ANY_LIST = {"type": "object", "required": ["list"]}


def trigger(schedule: Any = EVERY, **more: Any) -> dict[str, Any]:
    return {"type": "schedule", "schedule": schedule, **more}


def times(view: dict[str, Any]) -> list[datetime]:
    return [datetime.fromisoformat(at) for at in view["next_runs"]]


async def test_an_active_workflow_with_a_schedule_says_when_it_runs_next(person: Person) -> None:
    made = await create(person, trigger=trigger())
    assert made["next_run_at"] == made["next_runs"][0] and made["next_run_at"].endswith("Z")
    first, *_ = found = times(made)
    assert len(found) == 5
    assert {later - earlier for earlier, later in pairwise(found)} == {timedelta(minutes=90)}
    assert timedelta(minutes=89) < first - datetime.now(UTC) <= timedelta(minutes=90)
    listed = (await person.key.get("/api/workflows")).json()["workflows"]
    assert [one["next_runs"] for one in listed] == [made["next_runs"]]


async def test_a_workflow_that_does_not_run_by_the_clock_says_no_times(person: Person) -> None:
    draft = await create(person, trigger=trigger(), status="draft")
    webhook = await create(person)
    for one in (draft, webhook):
        assert (one["next_run_at"], one["next_runs"]) == (None, [])


async def test_a_bare_cron_is_shown_as_a_cron(person: Person) -> None:
    made = await create(person, trigger=trigger("0 9 * * *"))
    assert made["trigger"]["schedule"] == {"cron": "0 9 * * *"}
    assert {at.strftime("%H:%M") for at in times(made)} == {"09:00"}


async def test_a_pause_and_another_schedule_change_its_next_times_at_once(person: Person) -> None:
    made = await create(person, trigger=trigger())
    path = f"/api/workflows/{made['id']}"
    renamed = (await person.key.patch(path, json={"name": "renamed"})).json()
    assert renamed["next_runs"] == made["next_runs"]
    paused = (await person.key.patch(path, json={"status": "paused"})).json()
    assert (paused["next_run_at"], paused["next_runs"]) == (None, [])
    noon = trigger({"cron": "0 12 * * *", "timezone": "Asia/Kolkata"})
    active = (await person.key.patch(path, json={"status": "active", "trigger": noon})).json()
    assert {at.strftime("%H:%M") for at in times(active)} == {"06:30"}
    assert (await person.key.patch(path, json=active)).json()["next_runs"] == active["next_runs"]
    restored = (await person.key.post(f"{path}/versions/1/restore")).json()
    assert times(restored)[0] > datetime.now(UTC) + timedelta(minutes=89)


async def test_validating_a_schedule_shows_its_times(person: Person) -> None:
    answer = await person.key.post(
        "/api/workflows/validate", json={"name": "test", "trigger": trigger("0 0 29 2 *")}
    )
    assert [at.strftime("%m-%d") for at in times(answer.json())] == ["02-29"] * 5
    bad = await person.key.post("/api/workflows/validate", json={"name": "test", "trigger": trigger("x")})
    assert (bad.json()["valid"], bad.json()["next_runs"]) == (False, [])


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({"input": {"list": "vip"}}, None),
        ({"input": {"lists": "vip"}}, ("/trigger/input/list", "required")),
        ({"input": "vip"}, ("/trigger/input", "wrong_type")),
        ({}, ("/trigger/input/list", "required")),
    ],
    ids=["that fits", "without a field", "of another type", "that is left out"],
)
async def test_an_input_is_held_against_the_input_schema_when_it_is_saved(
    person: Person, more: dict[str, Any], found: tuple[str, str] | None
) -> None:
    body = {"name": "test", "trigger": trigger(**more), "input_schema": ANY_LIST}
    saved = await person.key.post("/api/workflows", json=body)
    if found is None:
        assert saved.status_code == 201
    else:
        assert problem(saved) == (400, "invalid_input") and wrong(saved) == {found}


async def test_a_zone_that_there_is_not_is_answered_with_the_nearest(person: Person) -> None:
    body = {"name": "test", "trigger": trigger({"cron": "0 9 * * *", "timezone": "Europe/Berln"})}
    refused = await person.key.post("/api/workflows", json=body)
    [error] = refused.json()["errors"]
    assert error["pointer"] == "/trigger/schedule/timezone" and "Europe/Berlin" in error["message"]
