"""A run goes at the pace of its sources: who lacks a limited one waits, the others are done at once."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest
from aiohttp import web

from database import Database
from models.errors import Conflict
from models.monitors import completion, runs
from models.monitors.monitors import CHANGED_CHANNEL
from models.monitors.run_views import MonitorRunView
from notifications import Notifier
from services.monitor_pace import NOBODY, Pace, WaitingTarget
from tests.automations.engine import until
from tests.monitors.conftest import forget_answers
from tests.monitors.watching import Answer, Scanner, Watcher, addresses, limited_but_for, scanned_as

TRACKED = ["threat.abuse_score", "threat.classification"]


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.moment = 0.0

    def __call__(self) -> float:
        return self.moment


def paced(count: int, ends: float = 1000.0) -> tuple[Pace, Clock]:
    clock = Clock()
    return Pace(clock, ends, [WaitingTarget(place, str(place)) for place in range(count)]), clock


def land(pace: Pace, waits: Mapping[str, float]) -> bool:
    one = pace.take()
    assert one is not None
    return pace.land(one, waits)


def test_targets_wait_for_what_they_lack_alone() -> None:
    pace, clock = paced(3)
    assert land(pace, {"slow": 144.0})
    assert land(pace, {"fast": 1.0, "slow": 144.0})
    assert not land(pace, {})
    assert pace.take() is None
    assert pace.waits() == {"slow": 144.0, "fast": 1.0}
    clock.moment = 1.0
    one = pace.take()
    assert one is not None
    assert (one.position, one.waits_for) == (1, "fast")
    assert pace.land(one, {"slow": 143.0})
    assert pace.take() is None
    assert pace.seconds() == 143.0


def test_one_at_a_time_tries_a_source_until_it_comes_through() -> None:
    pace, clock = paced(5)
    for _ in range(5):
        land(pace, {"slow": 1.0})
    clock.moment = 1.0
    first = pace.take()
    assert first is not None
    assert pace.take() is None
    assert not pace.land(first, {})
    assert [pace.take() is not None for _ in range(3)] == [True, True, False]


def test_who_cannot_be_heard_in_time_does_not_wait() -> None:
    pace, clock = paced(2, ends=100.0)
    assert not land(pace, {"monthly": 3600.0})
    assert land(pace, {"monthly": 3600.0, "slow": 50.0})
    clock.moment = 100.0
    assert not land(pace, {"slow": 50.0})


def test_another_try_is_waited_for_even_after_the_end() -> None:
    pace, clock = paced(1, ends=0.0)
    one = pace.take()
    assert one is not None
    pace.land(one, {})
    pace.put_back(one, seconds=2.0)
    assert pace.take() is None
    assert pace.waits() == {NOBODY: 2.0}
    clock.moment = 2.0
    assert pace.take() is one


def at_a_rate(seconds: float, answer: Answer) -> Answer:
    """Answer once in so many seconds, else say for how long to wait."""
    last = [0.0]

    def limited(address: str) -> web.Response:
        now = time.monotonic()
        if now - last[0] < seconds:
            return web.Response(status=429, headers={"retry-after": "1"})
        last[0] = now
        return answer(address)

    return limited


async def test_all_are_heard_at_the_pace_of_a_limited_source_and_none_is_asked_twice(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    targets = addresses(4)
    scanner.greynoise = at_a_rate(0.9, scanned_as("benign"))
    monitor_id = await watcher.monitor(targets, change_detection="full_refresh", tracked_fields=TRACKED)
    run, results = await watcher.found(monitor_id, notifier)
    assert (run.status, run.processed_records, run.targets_partial) == ("completed", 4, 0)
    assert [one["data"]["threat"]["classification"] for one in results] == ["benign"] * 4
    assert [scanner.asked["abuseipdb", target] for target in targets] == [1] * 4


@pytest.mark.long
async def test_who_was_not_heard_until_the_end_is_silent_by_quota_and_comes_first_the_next_time(
    database: Database, watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    targets = addresses(3)
    scanner.greynoise = limited_but_for(targets[0], seconds=9)
    monitor_id = await watcher.monitor(targets, tracked_fields=TRACKED)
    run_id = await watcher.start(monitor_id)
    soon = "update monitor_runs set ends_by = now() + interval '6 seconds' where id = %s"
    await watcher.rows(soon, run_id)
    notifier.notify(CHANGED_CHANNEL)
    run = await watcher.ended(monitor_id, run_id)
    unheard = [one["target"] for one in await watcher.results(run_id) if one["silent"]]
    assert set(unheard) >= set(targets[1:])
    silent = [one["silent"][0] for one in await watcher.results(run_id) if one["silent"]]
    assert {(one["source"], one["why"], one["since"]) for one in silent} == {("greynoise", "quota", None)}
    assert (run.status, run.targets_partial, run.credits_used) == ("completed", len(unheard), 3)

    scanner.greynoise = scanned_as("benign")
    await forget_answers(database)
    run_id = await watcher.start(monitor_id)
    [chunk] = await watcher.rows("select targets from monitor_run_chunks where run_id = %s", run_id)
    assert set(chunk["targets"][: len(unheard)]) == set(unheard)
    notifier.notify(CHANGED_CHANNEL)
    assert (await watcher.ended(monitor_id, run_id)).first_heard_records == len(unheard)
    left = await watcher.rows("select target from monitor_baselines where unheard_since is not null")
    assert left == []


async def test_a_run_that_is_due_while_one_comes_to_its_end_begins_after_it(
    database: Database, watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    monitor_id = await watcher.monitor(frequency="hourly")
    run_id = await watcher.start(monitor_id)
    await watcher.rows("update monitor_runs set ends_by = now() where id = %s", run_id)
    await watcher.rows("update monitors set next_run_at = now() where id = %s", monitor_id)
    async with database.transaction() as connection:
        assert await runs.start_due(connection, monitor_id) is None
    assert (await watcher.run(monitor_id, run_id)).skipped_runs == 0
    notifier.notify(CHANGED_CHANNEL)
    await watcher.ended(monitor_id, run_id)

    async def triggers() -> bool:
        statement = "select trigger from monitor_runs where monitor_id = %s order by id"
        rows = await watcher.rows(statement, monitor_id)
        return [one["trigger"] for one in rows] == ["manual", "schedule"]

    await until(triggers)


async def test_targets_that_lack_nothing_are_done_while_others_wait_for_long(
    database: Database, watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    first, second = addresses(2)
    scanner.greynoise = limited_but_for(first, seconds=25)
    monitor_id = await watcher.monitor([first, second], tracked_fields=TRACKED)
    run_id = await watcher.start(monitor_id, notifier)

    async def waits() -> MonitorRunView | None:
        run = await watcher.run(monitor_id, run_id)
        return run if run.resumes_at is not None else None

    run = await until(waits)
    assert run.processed_records <= 1
    await watcher.rows("update monitors set next_run_at = now() where id = %s", monitor_id)
    async with database.transaction() as connection:
        assert await runs.start_due(connection, monitor_id) is None
    assert (await watcher.run(monitor_id, run_id)).skipped_runs == 1
    with pytest.raises(Conflict):
        await watcher.start(monitor_id)
    async with database.transaction() as connection:
        await completion.cancel(connection, watcher.account_id, monitor_id, run_id)
    assert (await watcher.run(monitor_id, run_id)).resumes_at is None
