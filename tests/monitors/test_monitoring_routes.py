"""All monitors of an account seen as one, by requests."""

from __future__ import annotations

from typing import Any

import pytest

from database import Database
from models.monitors import overview
from tests.api_server import Api, Person
from tests.lists.making import create as create_list
from tests.monitors.asking import CHANGED, ERROR, create, given, run, watching

A, B, C = "a.example.com", "b.example.com", "c.example.com"


@pytest.fixture
async def person(api: Api, database: Database) -> Person:
    """Of domains two runs, the second with changes; of addresses one; of domains one under way."""
    person = await api.person(credits=100)
    domains = await watching(person.key, A, B, C, name="domains")
    await run(person, database, domains, {A: {"data": {"n": 1}}, B: {}, C: {"error": ERROR}})
    await run(person, database, domains, {A: {"changes": CHANGED}, B: {}, C: {"changes": CHANGED}})
    ips = await create(person.key, name="ips", monitor_type="ip", targets=["192.0.2.1"])
    await run(person, database, ips["id"], {"192.0.2.1": {"changes": CHANGED}})
    again = await watching(person.key, A, B, name="again")
    await run(person, database, again, {A: {"changes": CHANGED}}, end=False)
    return person


async def found(person: Person, **query: Any) -> tuple[list[tuple[str, str]], int]:
    answer = await given(person.key, "/api/monitoring/results", **query)
    return [(one["monitor_name"], one["target"]) for one in answer["results"]], answer["total"]


ALL = [
    ("again", A), ("ips", "192.0.2.1"), ("domains", A), ("domains", B), ("domains", C),
    ("domains", A), ("domains", B), ("domains", C),
]  # fmt: skip
CHANGES = [("again", A), ("ips", "192.0.2.1"), ("domains", A), ("domains", C)]


async def test_results_of_all_runs_come_newest_run_first(person: Person) -> None:
    assert await found(person) == (ALL, 8)
    assert await found(person, type="domain") == ([ALL[0], *ALL[2:]], 7)
    assert await found(person, type="phone") == ([], 0)
    assert await found(person, changes_only=True) == (CHANGES, 4)
    assert await found(person, changes_only=True, type="ip") == ([CHANGES[1]], 1)


@pytest.mark.parametrize("changes_only", [False, True])
async def test_pages_of_results_go_over_the_bounds_of_runs(person: Person, changes_only: bool) -> None:
    rows = CHANGES if changes_only else ALL
    for limit in (1, 3, 100):
        for offset in range(len(rows) + 2):
            page = await found(person, changes_only=changes_only, limit=limit, offset=offset)
            assert page == (rows[offset : offset + limit], len(rows))


async def test_a_page_is_found_behind_more_runs_than_are_counted_at_once(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "_FIRST_RUNS", 1)
    assert await found(person, limit=3, offset=3) == (ALL[3:6], 8)
    assert await found(person, limit=3, offset=99) == ([], 8)


async def test_a_result_names_its_run_and_monitor(person: Person) -> None:
    [_, _, result, *_] = (await given(person.key, "/api/monitoring/results"))["results"]
    [shown] = [
        one
        for one in (await given(person.key, "/api/monitoring/runs"))["runs"]
        if one["id"] == result["run_id"]
    ]
    assert result.pop("id")
    assert result == {
        "run_id": shown["id"], "monitor_id": shown["monitor_id"], "monitor_name": "domains",
        "monitor_type": "domain", "completed_at": shown["completed_at"], "email": A, "target": A,
        "data": {"n": 1}, "changes": CHANGED, "change_details": None, "has_changes": True, "error": None,
        "first_heard": None, "partial": False, "silent": [], "seen_at": None,
    }  # fmt: skip


async def test_a_result_is_the_same_one_wherever_it_is_shown(person: Person) -> None:
    for one in (await given(person.key, "/api/monitoring/results"))["results"]:
        path = f"/api/monitors/{one['monitor_id']}/runs/{one['run_id']}/results"
        assert one["id"] in {other["id"] for other in await given(person.key, path)}


async def test_totals_leave_out_what_was_deleted(person: Person) -> None:
    for monitor in (await given(person.key, "/api/monitors", type="ip"))["monitors"]:
        await person.key.delete(f"/api/monitors/{monitor['id']}")
    assert await found(person) == ([ALL[0], *ALL[2:]], 7)
    assert (await given(person.key, "/api/monitoring/runs"))["total"] == 3
    assert (await given(person.key, "/api/monitoring/targets"))["total"] == 5


async def test_runs_of_all_monitors_come_newest_first_and_by_type(person: Person) -> None:
    answer = await given(person.key, "/api/monitoring/runs")
    names = [one["monitor_name"] for one in answer["runs"]]
    assert (names, answer["total"]) == (["again", "ips", "domains", "domains"], 4)
    answer = await given(person.key, "/api/monitoring/runs", type="domain", limit=1, offset=1)
    assert ([one["monitor_name"] for one in answer["runs"]], answer["total"]) == (["domains"], 3)


async def test_targets_of_all_monitors_are_their_own_and_those_of_lists(api: Api) -> None:
    person = await api.person()
    listed = await create_list(person.key, targets=["ada@example.com", "bob@example.com"])
    first = await create(person.key, name="first", data_source_ref=listed["id"])
    second = await create(person.key, name="second", monitor_type="ip", targets=["192.0.2.1", "192.0.2.2"])
    third = await create(person.key, name="third", data_source_ref=listed["id"])
    await create(person.key, name="fourth")
    rows = [
        {"monitor_id": one["id"], "monitor_name": one["name"], "type": one["monitor_type"], "target": target}
        for one, targets in (
            (third, ["ada@example.com", "bob@example.com"]),
            (second, ["192.0.2.1", "192.0.2.2"]),
            (first, ["ada@example.com", "bob@example.com"]),
        )
        for target in targets
    ]
    path = "/api/monitoring/targets"
    for limit in (1, 3, 100):
        for offset in range(8):
            page = await given(person.key, path, limit=limit, offset=offset)
            assert page == {"targets": rows[offset : offset + limit], "total": 6}
    assert await given(person.key, path, type="ip") == {"targets": rows[2:4], "total": 2}
    await person.key.delete(f"/api/lists/{listed['id']}")
    assert await given(person.key, path) == {"targets": rows[2:4], "total": 2}
