"""Which changes of a monitor somebody has seen: up to a run, and never fewer than before."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from database import Database
from models.monitors import cleanup
from tests.api_server import Api, Person
from tests.monitors.asking import CHANGED, given, refused, run, watching

A, B = "a.example.com", "b.example.com"


class Monitored:
    """A monitor of two domains, of which runs have found changes.

    Attributes:
        runs: three ended runs with one, two and one changes, and one under way with one.
    """

    def __init__(self, person: Person, database: Database, id: str) -> None:
        self.person, self.id = person, id
        self.runs: list[str] = []
        self._database = database

    async def run(self, *changed: str, end: bool = True) -> None:
        """Have a run find changes of these targets."""
        found = {target: {"changes": CHANGED} if target in changed else {} for target in (A, B)}
        self.runs.append(await run(self.person, self._database, self.id, found, end=end))

    async def see(self, run: int) -> dict[str, Any]:
        """Mark a run as seen; the monitor."""
        response = await self.person.key.post(f"/api/monitors/{self.id}/runs/{self.runs[run]}/seen")
        assert response.status_code == 200, response.text
        return response.json()

    async def shown(self) -> tuple[int, int | None]:
        """How many changes are unseen, and which run is the last that was seen."""
        monitor = await given(self.person.key, f"/api/monitors/{self.id}")
        [listed] = (await given(self.person.key, "/api/monitors"))["monitors"]
        assert listed["unseen_changes"] == monitor["unseen_changes"]
        seen = monitor["seen_run_id"]
        assert (seen is None) == (monitor["seen_at"] is None)
        return monitor["unseen_changes"], None if seen is None else self.runs.index(seen)

    async def unseen(self, **query: Any) -> list[tuple[int, str]]:
        """Run and target of each unseen change, newest first."""
        query = {"unseen": True, "monitor_id": self.id, **query}
        answer = await given(self.person.key, "/api/monitoring/results", **query)
        found = [(self.runs.index(one["run_id"]), one["target"]) for one in answer["results"]]
        assert "limit" in query or answer["total"] == len(found)
        return found


@pytest.fixture
async def monitored(api: Api, database: Database) -> Monitored:
    person = await api.person(credits=100)
    monitor = Monitored(person, database, await watching(person.key, A, B))
    await monitor.run(A)
    await monitor.run(A, B)
    await monitor.run(B)
    await monitor.run(A, end=False)
    return monitor


async def test_changes_are_unseen_until_somebody_marks_their_run(monitored: Monitored) -> None:
    assert await monitored.shown() == (4, None)
    assert await monitored.unseen() == [(3, A), (2, B), (1, A), (1, B), (0, A)]
    marked = await monitored.see(1)
    assert (marked["unseen_changes"], marked["seen_run_id"]) == (1, monitored.runs[1])
    assert await monitored.shown() == (1, 1)
    assert await monitored.unseen() == [(3, A), (2, B)]
    assert await monitored.unseen(limit=1, offset=1) == [(2, B)]


async def test_each_change_says_whether_it_was_seen(monitored: Monitored) -> None:
    seen_at = (await monitored.see(1))["seen_at"]
    assert seen_at is not None
    for number, expected in ((0, [seen_at, None]), (1, [seen_at, seen_at]), (2, [None, None])):
        path = f"/api/monitors/{monitored.id}/runs/{monitored.runs[number]}/results"
        assert [one["seen_at"] for one in await given(monitored.person.key, path)] == expected
    answer = await given(monitored.person.key, "/api/monitoring/results", changes_only=True)
    assert [one["seen_at"] for one in answer["results"]] == [None, None, *3 * [seen_at]]
    past = await given(monitored.person.key, f"/api/monitors/{monitored.id}/targets/history", target=A)
    assert [one["seen_at"] for one in past["results"]] == [None, seen_at, seen_at], "the run 2 has none"


async def test_what_was_seen_stays_seen(monitored: Monitored) -> None:
    first = await monitored.see(2)
    assert await monitored.see(0) == await monitored.see(2) == first
    assert await monitored.shown() == (0, 2)


async def test_of_two_who_look_at_once_the_later_run_counts(monitored: Monitored) -> None:
    await asyncio.gather(*(monitored.see(number) for number in (0, 2, 1, 2, 0)))
    assert await monitored.shown() == (0, 2)


async def test_a_run_under_way_is_seen_only_after_its_end(monitored: Monitored) -> None:
    assert (await monitored.see(3))["seen_run_id"] == monitored.runs[2]
    assert await monitored.unseen() == [(3, A)]


async def test_what_was_seen_is_known_after_the_runs_are_purged(
    monitored: Monitored, database: Database
) -> None:
    await monitored.see(1)
    for numbers, left in (([0], 1), ([1], 1), ([2], 0)):
        async with database.connection() as connection:
            await connection.execute(
                "update monitor_runs set completed_at = now() - interval '100 days' where id = any(%s)",
                ([UUID(monitored.runs[number]) for number in numbers],),
            )
            assert await cleanup.purge_old(connection, 90) == 1
        assert await monitored.shown() == (left, 1)
        path = f"/api/monitors/{monitored.id}/runs/{monitored.runs[numbers[0]]}/seen"
        assert refused(await monitored.person.key.post(path)) == (404, "not_found")


async def test_changes_that_nobody_saw_are_purged_without_being_counted_as_seen(
    monitored: Monitored, database: Database
) -> None:
    async with database.connection() as connection:
        await connection.execute(
            "update monitor_runs set completed_at = now() - interval '100 days' where id = %s",
            (monitored.runs[0],),
        )
        assert await cleanup.purge_old(connection, 90) == 1
    assert await monitored.shown() == (3, None)
    assert (await monitored.see(1))["unseen_changes"] == 1


async def test_a_run_of_another_monitor_marks_nothing(monitored: Monitored) -> None:
    other = await watching(monitored.person.key, A, name="other")
    path = f"/api/monitors/{other}/runs/{monitored.runs[1]}/seen"
    assert refused(await monitored.person.key.post(path)) == (404, "not_found")
    assert await monitored.unseen() == [(3, A), (2, B), (1, A), (1, B), (0, A)]
