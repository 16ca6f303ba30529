"""Runs of monitors and what they have found, by requests."""

from __future__ import annotations

import tracemalloc
from typing import Any
from uuid import UUID

import pytest

from database import Database
from models.identifiers import new_id
from models.monitors import completion, runs
from tests.api_server import Api
from tests.lists.making import create as create_list
from tests.monitors.asking import (
    CHANGED,
    ERROR,
    claim,
    create,
    given,
    record,
    refused,
    run,
    start,
    watching,
)

A, B, C = "a.example.com", "b.example.com", "c.example.com"


async def test_a_run_by_hand_is_accepted_with_its_targets_and_holds_their_credits(api: Api) -> None:
    person = await api.person(credits=5)
    monitor_id = await watching(person.key, A, B)
    answer = await person.key.post(f"/api/monitors/{monitor_id}/run")
    assert answer.status_code == 202
    run_id = answer.json()["run_id"]
    assert answer.json() == {
        "run_id": run_id,
        "status": "running",
        "message": "Accepted; 2 targets will be looked up.",
    }
    assert (await given(person.key, "/api/credits"))["held"] == 2
    assert await given(person.key, answer.headers["location"]) == {
        "id": run_id, "monitor_id": monitor_id, "monitor_name": "a monitor", "monitor_type": "domain",
        "status": "queued", "trigger": "manual", "total_records": 2, "processed_records": 0,
        "failed_records": 0, "changes_detected": 0, "targets_partial": 0, "first_heard_records": 0,
        "sources_silent": [], "skipped_runs": 0, "resumes_at": None, "credits_used": 0,
        "duration_ms": None, "error": None,
        "started_at": None, "completed_at": None,
    }  # fmt: skip


async def test_a_second_run_is_refused_with_the_id_of_the_first(api: Api) -> None:
    person = await api.person(credits=5)
    monitor_id = await watching(person.key, A)
    run_id = await start(person, monitor_id)
    refusal = await person.key.post(f"/api/monitors/{monitor_id}/run")
    assert refused(refusal) == (409, "run_in_progress")
    assert refusal.json()["run_id"] == run_id


async def test_a_run_without_enough_credits_is_refused_and_none_is_held(api: Api) -> None:
    person = await api.person(credits=1)
    monitor_id = await watching(person.key, A, B)
    refusal = await person.key.post(f"/api/monitors/{monitor_id}/run")
    assert refused(refusal) == (402, "insufficient_credits")
    assert (refusal.json()["required"], refusal.json()["balance"]) == (2, 1)
    assert await given(person.key, f"/api/monitors/{monitor_id}/runs") == {"runs": [], "total": 0}
    assert (await given(person.key, "/api/credits"))["balance"] == 1


async def test_a_run_of_no_targets_is_refused(api: Api) -> None:
    person = await api.person()
    listed = await create_list(person.key)
    for made in (await create(person.key), await create(person.key, data_source_ref=listed["id"])):
        assert refused(await person.key.post(f"/api/monitors/{made['id']}/run")) == (409, "no_targets")


async def test_a_repeat_with_the_same_key_gets_the_first_run(api: Api) -> None:
    person = await api.person(credits=5)
    path = f"/api/monitors/{await watching(person.key, A)}/run"
    first, second = [await person.key.post(path, headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert first.json() == second.json()
    assert second.headers["idempotent-replayed"] == "true"
    assert second.headers["location"] == first.headers["location"]


async def test_a_repeat_finds_the_first_run_also_if_its_answer_was_lost(api: Api, database: Database) -> None:
    person = await api.person(credits=5)
    monitor_id = await watching(person.key, A)
    path, headers = f"/api/monitors/{monitor_id}/run", {"Idempotency-Key": "lost"}
    first = await person.key.post(path, headers=headers)
    await claim(database)
    async with database.transaction() as connection:
        await completion.finish(connection, UUID(first.json()["run_id"]))
        await connection.execute("update idempotency_keys set answer = null, leased_until = now()")
    repeat = await person.key.post(path, headers=headers)
    assert (repeat.status_code, repeat.json()) == (202, first.json())
    assert (await given(person.key, f"/api/monitors/{monitor_id}/runs"))["total"] == 1


async def test_a_run_that_was_asked_for_before_a_newer_one_comes_after_that(
    api: Api, database: Database
) -> None:
    person = await api.person(credits=5)
    monitor_id = await watching(person.key, A)
    asked = new_id()
    newer = await run(person, database, monitor_id, {A: {}})
    async with database.transaction() as connection:
        started = await runs.start(connection, person.account.id, UUID(monitor_id), asked)
    assert started.run_id > UUID(newer)


async def test_runs_are_shown_newest_first_a_page_at_a_time(api: Api, database: Database) -> None:
    person = await api.person(credits=50)
    monitor_id = await watching(person.key, A)
    ids = [await run(person, database, monitor_id, {A: {}}) for _ in range(3)]
    await run(person, database, await watching(person.key, B), {B: {}})
    path = f"/api/monitors/{monitor_id}/runs"
    found = await given(person.key, path)
    assert ([one["id"] for one in found["runs"]], found["total"]) == (ids[::-1], 3)
    found = await given(person.key, path, limit=1, offset=1)
    assert ([one["id"] for one in found["runs"]], found["total"]) == ([ids[1]], 3)


async def test_a_cancelled_run_stays_as_it_is_and_what_it_found_is_paid(api: Api, database: Database) -> None:
    person = await api.person(credits=5)
    monitor_id = await watching(person.key, A, B)
    run_id = await run(person, database, monitor_id, {A: {}}, end=False)
    path = f"/api/monitors/{monitor_id}/runs/{run_id}"
    cancelled = (await person.key.post(f"{path}/cancel")).json()
    assert (cancelled["status"], cancelled["credits_used"]) == ("cancelled", 1)
    assert (await person.key.post(f"{path}/cancel")).json() == cancelled
    assert await given(person.key, path) == cancelled
    assert (await given(person.key, "/api/credits"))["balance"] == 4


async def test_a_run_is_found_at_its_own_monitor_alone(api: Api, database: Database) -> None:
    person = await api.person(credits=5)
    run_id = await run(person, database, await watching(person.key, A), {A: {}})
    other = f"/api/monitors/{await watching(person.key, B)}/runs/{run_id}"
    for path in (other, f"{other}/results", f"{other}/results?limit=1", f"{other}/results/download"):
        assert refused(await person.key.get(path)) == (404, "not_found")
    assert refused(await person.key.post(f"{other}/cancel")) == (404, "not_found")


async def test_a_result_has_the_answer_and_what_has_changed(api: Api, database: Database) -> None:
    person = await api.person(credits=50)
    monitor_id = await watching(person.key, A, B, C)
    first = await run(
        person, database, monitor_id, {A: {"data": {"n": 1}}, B: {"data": {"n": 2}}, C: {"error": ERROR}}
    )
    details = {"whois.registrar": {"sources": ["rdapdomain"]}}
    changed = {"changes": CHANGED, "details": details, "data": {"n": 3}}
    second = await run(person, database, monitor_id, {A: changed, B: {"error": ERROR}, C: {"data": {"n": 4}}})

    async def results(run_id: str) -> list[dict[str, Any]]:
        return await given(person.key, f"/api/monitors/{monitor_id}/runs/{run_id}/results")

    nothing: dict[str, Any] = {
        "changes": None, "change_details": None, "has_changes": False, "first_heard": None, "partial": False,
        "silent": [], "seen_at": None, "error": None,
    }  # fmt: skip
    assert [{k: v for k, v in one.items() if k != "id"} for one in await results(first)] == [
        {"email": A, "target": A, "data": {"n": 1}, **nothing},
        {"email": B, "target": B, "data": {"n": 2}, **nothing},
        {"email": C, "target": C, "data": None, **nothing, "error": ERROR},
    ]
    assert [{k: v for k, v in one.items() if k != "id"} for one in await results(second)] == [
        {"email": A, "target": A, "data": {"n": 3}, "changes": CHANGED, "change_details": details,
         "has_changes": True, "first_heard": None, "partial": False, "silent": [], "seen_at": None,
         "error": None},
        {"email": B, "target": B, "data": {"n": 2}, **nothing, "error": ERROR},
        {"email": C, "target": C, "data": {"n": 4}, **nothing},
    ]  # fmt: skip
    ids = [one["id"] for run_id in (first, second) for one in await results(run_id)]
    assert len({UUID(id) for id in ids}) == 6
    assert ids[3:] == [one["id"] for one in await results(second)]


async def test_results_come_as_an_array_or_as_pages_with_their_total(api: Api, database: Database) -> None:
    person = await api.person(credits=500)
    targets = [f"h{n}.example.com" for n in range(250)]
    monitor_id = await watching(person.key, *targets)
    found = {target: {"changes": CHANGED} if n % 3 == 0 else {} for n, target in enumerate(targets)}
    path = f"/api/monitors/{monitor_id}/runs/{await run(person, database, monitor_id, found)}/results"

    def named(results: list[dict[str, Any]]) -> list[str]:
        return [one["target"] for one in results]

    assert named(await given(person.key, path)) == targets
    assert named(await given(person.key, path, changes_only=True)) == targets[::3]
    for query, expected, total in (
        ({"limit": 2}, targets[:2], 250),
        ({"offset": 240}, targets[240:], 250),
        ({"offset": 3}, targets[3:103], 250),
        ({"limit": 5, "offset": 250}, [], 250),
        ({"limit": 3, "offset": 2, "changes_only": True}, targets[::3][2:5], 84),
    ):
        page = await given(person.key, path, **query)
        assert (named(page["results"]), page["total"]) == (expected, total)


async def test_a_run_under_way_shows_what_it_has_found_so_far(api: Api, database: Database) -> None:
    person = await api.person(credits=5)
    monitor_id = await watching(person.key, A, B)
    run_id = await run(person, database, monitor_id, {A: {"data": {}}}, end=False)
    path = f"/api/monitors/{monitor_id}/runs/{run_id}/results"
    assert [one["target"] for one in await given(person.key, path)] == [A]
    assert (await given(person.key, path, limit=10))["total"] == 1


async def test_the_history_of_a_target_is_that_of_the_runs_that_ended(api: Api, database: Database) -> None:
    person = await api.person(credits=50)
    monitor_id = await watching(person.key, A, B)
    first = await run(person, database, monitor_id, {A: {"data": {"n": 1}}, B: {}})
    second = await run(person, database, monitor_id, {A: {}, B: {"changes": CHANGED}})
    third = await run(person, database, monitor_id, {A: {"changes": CHANGED, "data": {"n": 2}}})
    await run(person, database, monitor_id, {A: {"data": {"n": 3}}}, end=False)
    path = f"/api/monitors/{monitor_id}/targets/history"
    history = await given(person.key, path, target=" A.example.com ")
    nothing: dict[str, Any] = {
        "changes": None, "change_details": None, "first_heard": None, "partial": False, "silent": [],
            "seen_at": None,
        "error": None,
    }  # fmt: skip
    ended = {
        one["id"]: one["completed_at"]
        for one in (await given(person.key, f"/api/monitors/{monitor_id}/runs"))["runs"]
    }
    assert history == {
        "results": [
            {"run_id": third, "data": {"n": 2}, **nothing, "changes": CHANGED, "completed_at": ended[third]},
            {"run_id": second, "data": {"n": 1}, **nothing, "completed_at": ended[second]},
            {"run_id": first, "data": {"n": 1}, **nothing, "completed_at": ended[first]},
        ],
        "next_cursor": None,
    }
    page = await given(person.key, path, target=A, limit=2)
    assert [one["run_id"] for one in page["results"]] == [third, second]
    page = await given(person.key, path, target=A, limit=2, cursor=page["next_cursor"])
    assert ([one["run_id"] for one in page["results"]], page["next_cursor"]) == ([first], None)


@pytest.mark.parametrize("target", ["unknown.example.com", "no domain", "x" * 500])
async def test_the_history_of_an_unknown_target_is_empty(api: Api, target: str) -> None:
    person = await api.person()
    path = f"/api/monitors/{await watching(person.key, A)}/targets/history"
    assert await given(person.key, path, target=target) == {"results": [], "next_cursor": None}


async def test_results_stay_when_a_target_is_removed(api: Api, database: Database) -> None:
    person = await api.person(credits=5)
    monitor_id = await watching(person.key, A, B)
    run_id = await run(person, database, monitor_id, {A: {"data": {"n": 1}}, B: {}})
    await person.key.request("DELETE", f"/api/monitors/{monitor_id}/targets", json=[A])
    results = await given(person.key, f"/api/monitors/{monitor_id}/runs/{run_id}/results")
    assert [(one["target"], one["data"]) for one in results] == [(A, {"n": 1}), (B, None)]


async def test_a_run_of_which_all_failed_has_failed(api: Api, database: Database) -> None:
    person = await api.person(credits=5)
    monitor_id = await watching(person.key, A)
    run_id = await run(person, database, monitor_id, {A: {"error": ERROR}})
    shown = await given(person.key, f"/api/monitors/{monitor_id}/runs/{run_id}")
    assert (shown["status"], shown["error"]["code"]) == ("failed", "all_targets_failed")
    assert (shown["failed_records"], shown["credits_used"]) == (1, 0)


@pytest.mark.long
async def test_many_results_are_sent_without_being_held_in_memory(api: Api, database: Database) -> None:
    person = await api.person(credits=100_000)
    targets = [f"h{n}.example.com" for n in range(5_000)]
    monitor_id = (await create(person.key, monitor_type="domain", targets=targets))["id"]
    run_id = await start(person, monitor_id)
    await claim(database)
    answer = {"data": {"whois": {"registrar": "R" * 8_000}}}
    for first in range(0, 5_000, 500):
        some = [(target, answer) for target in targets[first : first + 500]]
        await record(database, monitor_id, run_id, some, first)
    async with database.transaction() as connection:
        await completion.finish(connection, UUID(run_id))
    path = f"/api/monitors/{monitor_id}/runs/{run_id}/results"
    for place in (path, f"{path}/download"):
        size = 0
        tracemalloc.start()
        async with person.key.stream("GET", place) as response:
            async for piece in response.aiter_raw():
                size += len(piece)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert size > 40_000_000
        assert peak < 10_000_000
    assert [one["target"] for one in await given(person.key, path)] == targets
