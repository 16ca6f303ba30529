"""Noise is no change, and conditions choose among changes: from what sources answer to what runs tell."""

from __future__ import annotations

from typing import Any

from models.lists import lists
from notifications import Notifier
from tests.monitors.conftest import forget_answers
from tests.monitors.watching import Scanner, Watcher, addresses, reported, scanned_as

LEVEL, SCORE = "verdict.level", "threat.abuse_score"


async def run_with(
    watcher: Watcher, notifier: Notifier, scanner: Scanner, monitor_id: Any, score: int
) -> dict[str, Any]:
    """Return what a run tells in which AbuseIPDB gives this score."""
    await forget_answers(watcher.database)
    scanner.abuseipdb = reported(score=score)
    _, [result] = await watcher.found(monitor_id, notifier)
    return {path: (one["old"], one["new"]) for path, one in (result["changes"] or {}).items()}


async def test_a_level_changes_with_its_cause_and_not_with_a_score_that_crosses_by_one(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    scanner.greynoise = scanned_as("unknown")
    monitor_id = await watcher.monitor(change_detection="full_refresh")
    for score in (74, 75, 74, 76, 73, 80):
        assert await run_with(watcher, notifier, scanner, monitor_id, score) == {}, score
    told = await run_with(watcher, notifier, scanner, monitor_id, 90)
    assert told[LEVEL] == ("suspicious", "malicious") and told[SCORE] == (74, 90)
    assert await run_with(watcher, notifier, scanner, monitor_id, 81) == {}
    told = await run_with(watcher, notifier, scanner, monitor_id, 74)
    assert told[LEVEL] == ("malicious", "suspicious") and told[SCORE] == (90, 74)


async def test_a_tolerance_that_was_chosen_counts_for_the_verdict_too(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    scanner.greynoise = scanned_as("unknown")
    plan = {"change_detection": "full_refresh", "tracked_fields": [LEVEL]}
    exact = await watcher.monitor(tolerance={SCORE: 0}, **plan)
    wide = await watcher.monitor(tolerance={SCORE: 30}, **plan)
    for monitor_id, told in ((exact, {LEVEL: ("suspicious", "malicious")}), (wide, {})):
        await run_with(watcher, notifier, scanner, monitor_id, 74)
        assert await run_with(watcher, notifier, scanner, monitor_id, 76) == told


async def test_the_conditions_of_a_list_choose_what_the_runs_of_its_monitors_tell(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    scanner.greynoise = scanned_as("unknown")
    when = [{"field": SCORE, "above": 50}, {"field": LEVEL, "becomes": "malicious"}]
    async with watcher.database.transaction() as connection:
        listed = await lists.create(connection, watcher.actor, "l", "ip", addresses(1), when)
    monitor_id = await watcher.monitor([], list_id=listed.id, change_detection="full_refresh")
    assert await run_with(watcher, notifier, scanner, monitor_id, 3) == {}
    assert await run_with(watcher, notifier, scanner, monitor_id, 40) == {}
    assert await run_with(watcher, notifier, scanner, monitor_id, 60) == {SCORE: (40, 60)}
    told = await run_with(watcher, notifier, scanner, monitor_id, 95)
    assert told == {SCORE: (60, 95), LEVEL: ("suspicious", "malicious")}
    assert await run_with(watcher, notifier, scanner, monitor_id, 10) == {}
