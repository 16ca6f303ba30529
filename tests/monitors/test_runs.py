"""A run looks at every target of its moment, tells what has changed, and costs what was answered."""

from __future__ import annotations

import pytest

from models.errors import Conflict, InsufficientCredits
from models.lists import lists
from models.monitors import monitored_targets
from models.monitors.monitors import CHANGED_CHANNEL
from notifications import Notifier
from tests.monitors.conftest import NewWatcher
from tests.monitors.watching import Scanner, Watcher, addresses, answering, reported, scanned_as


async def test_a_first_run_knows_each_target_and_no_change(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    targets = addresses(3)
    monitor_id = await watcher.monitor(targets)
    run, results = await watcher.found(monitor_id, notifier)
    assert run.status == "completed"
    assert (run.total_records, run.processed_records, run.failed_records, run.changes_detected) == (
        3,
        3,
        0,
        0,
    )
    assert [one["target"] for one in results] == targets
    assert all(one["changes"] is None and not one["has_changes"] for one in results)
    assert {one["data"]["threat"]["classification"] for one in results} == {"benign"}


async def test_a_change_is_told_with_old_and_new(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    monitor_id = await watcher.monitor(change_detection="full_refresh")
    await watcher.found(monitor_id, notifier)
    scanner.greynoise = scanned_as("malicious")
    run, [result] = await watcher.found(monitor_id, notifier)
    assert run.changes_detected == 1 and result["has_changes"]
    assert result["changes"]["threat.classification"] == {"old": "benign", "new": "malicious"}
    assert result["details"]["threat.classification"]["sources"] == ["greynoise"]
    assert result["data"]["threat"]["classification"] == "malicious"


async def test_the_moments_between_which_a_change_came_end_in_z(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    monitor_id = await watcher.monitor(change_detection="full_refresh")
    await watcher.found(monitor_id, notifier)
    scanner.greynoise = scanned_as("malicious")
    _, [result] = await watcher.found(monitor_id, notifier)
    since = result["details"]["threat.classification"]["since"]
    assert since["after"].endswith("Z") and since["by"].endswith("Z"), since


async def test_a_second_run_hears_what_is_said_now_and_not_what_the_first_has_heard(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    monitor_id = await watcher.monitor(frequency="monthly")
    await watcher.found(monitor_id, notifier)
    scanner.greynoise = scanned_as("malicious")
    _, [result] = await watcher.found(monitor_id, notifier)
    assert result["changes"]["threat.classification"] == {"old": "benign", "new": "malicious"}


async def test_an_answer_that_came_after_the_run_before_is_not_asked_for_again(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    [target] = addresses(1)
    one, other = await watcher.monitor([target]), await watcher.monitor([target])
    for monitor_id in (one, other):
        await watcher.found(monitor_id, notifier)
    assert scanner.asked["greynoise", target] == 1


async def test_an_answer_from_before_the_monitor_was_made_is_no_baseline(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    [target] = addresses(1)
    await watcher.found(await watcher.monitor([target]), notifier)
    scanner.greynoise = scanned_as("malicious")
    _, [result] = await watcher.found(await watcher.monitor([target]), notifier)
    assert scanner.asked["greynoise", target] == 2
    assert result["data"]["threat"]["classification"] == "malicious"


async def test_a_score_that_rises_from_76_to_99_is_a_change_unless_the_tolerance_allows_it(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    usual = await watcher.monitor(change_detection="full_refresh")
    tolerant = await watcher.monitor(
        change_detection="full_refresh",
        tolerance={"threat.abuse_score": 30},
        tracked_fields=["*.abuse_score"],
    )
    for score in (76, 99):
        scanner.abuseipdb = reported(score=score)
        found = [(await watcher.found(one, notifier))[1][0]["changes"] for one in (usual, tolerant)]
    assert found[0]["threat.abuse_score"] == {"old": 76, "new": 99}
    assert found[1] is None


async def test_what_is_as_before_is_no_change_and_stored_once(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    monitor_id = await watcher.monitor(addresses(2))
    _, before = await watcher.found(monitor_id, notifier)
    run, after = await watcher.found(monitor_id, notifier)
    assert run.changes_detected == 0
    assert [one["data"] for one in after] == [one["data"] for one in before]
    [stored] = await watcher.rows(
        "select count(*) as n from monitor_snapshots where monitor_id = %s", monitor_id
    )
    assert stored["n"] == 2


async def test_a_full_refresh_asks_anew_and_stores_every_answer(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    [target] = addresses(1)
    monitor_id = await watcher.monitor([target], change_detection="full_refresh")
    await watcher.found(monitor_id, notifier)
    await watcher.found(monitor_id, notifier)
    assert scanner.asked["greynoise", target] == 2
    [stored] = await watcher.rows(
        "select count(*) as n from monitor_snapshots where monitor_id = %s", monitor_id
    )
    assert stored["n"] == 2


async def test_a_source_that_fails_changes_nothing_and_what_comes_back_is_compared_with_what_was(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    monitor_id = await watcher.monitor(change_detection="full_refresh")
    await watcher.found(monitor_id, notifier)
    scanner.greynoise = answering(400)
    run, [result] = await watcher.found(monitor_id, notifier)
    assert run.status == "completed" and run.failed_records == 0
    assert result["changes"] is None
    assert result["data"]["threat"]["classification"] == "benign"
    scanner.greynoise = scanned_as("malicious")
    _, [result] = await watcher.found(monitor_id, notifier)
    assert result["changes"]["threat.classification"] == {"old": "benign", "new": "malicious"}


@pytest.mark.long
async def test_a_target_of_which_all_sources_fail_keeps_its_data_and_costs_nothing(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    monitor_id = await watcher.monitor(change_detection="full_refresh")
    await watcher.found(monitor_id, notifier)
    scanner.greynoise = scanner.abuseipdb = answering(400)
    run, [result] = await watcher.found(monitor_id, notifier)
    assert run.status == "failed" and run.error is not None and run.error["code"] == "all_targets_failed"
    assert run.credits_used == 0
    assert result["error"]["code"] == "all_providers_failed"
    assert result["data"]["threat"]["classification"] == "benign"
    assert await watcher.balance() == (999, 0)


async def test_a_target_that_cannot_be_looked_up_is_told_why_and_not_where_it_stood(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    # What lists and monitors take as a target can be none for its lookup, as a name of one letter.
    monitor_id = await watcher.monitor(["x"])
    _, [result] = await watcher.found(monitor_id, notifier)
    assert result["error"]["code"] == "invalid_input"
    assert result["error"]["message"].startswith("This is not an IP address")


async def test_a_target_that_was_removed_during_a_run_is_known_for_the_first_time_when_it_is_back(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    [target] = addresses(1)
    monitor_id = await watcher.monitor([target], change_detection="full_refresh")
    run_id = await watcher.start(monitor_id)
    async with watcher.database.transaction() as connection:
        await monitored_targets.remove(connection, watcher.actor, monitor_id, "m", [target])
    notifier.notify(CHANGED_CHANNEL)
    await watcher.ended(monitor_id, run_id)
    async with watcher.database.transaction() as connection:
        await monitored_targets.add(connection, watcher.actor, monitor_id, "m", [target])
    scanner.greynoise = scanned_as("malicious")
    _, [result] = await watcher.found(monitor_id, notifier)
    assert result["changes"] is None
    assert result["data"]["threat"]["classification"] == "malicious"


async def test_fields_that_are_ignored_are_no_change(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    monitor_id = await watcher.monitor(
        change_detection="full_refresh", ignored_fields=["threat.class*", "verdict"]
    )
    await watcher.found(monitor_id, notifier)
    scanner.greynoise, scanner.abuseipdb = scanned_as("malicious"), reported("Hosting")
    _, [result] = await watcher.found(monitor_id, notifier)
    assert set(result["changes"]) == {"threat.usage_type"}


async def test_a_run_holds_a_credit_for_each_target_and_pays_for_those_that_were_answered(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    targets = addresses(4)
    scanner.greynoise = lambda address: (
        answering(400)(address) if address == targets[1] else scanned_as("benign")(address)
    )
    scanner.abuseipdb = answering(400)
    monitor_id = await watcher.monitor(targets)
    run_id = await watcher.start(monitor_id)
    assert await watcher.balance() == (996, 4)
    notifier.notify("monitors_changed")
    run = await watcher.ended(monitor_id, run_id)
    assert (run.status, run.failed_records, run.credits_used) == ("completed", 1, 3)
    assert await watcher.balance() == (997, 0)


async def test_without_enough_credits_a_run_is_refused_and_nothing_is_held(new_watcher: NewWatcher) -> None:
    watcher = await new_watcher(2)
    monitor_id = await watcher.monitor(addresses(3))
    with pytest.raises(InsufficientCredits):
        await watcher.start(monitor_id)
    assert await watcher.balance() == (2, 0)
    assert await watcher.rows("select 1 from monitor_runs where monitor_id = %s", monitor_id) == []


async def test_a_second_run_is_refused_while_one_is_under_way(watcher: Watcher) -> None:
    monitor_id = await watcher.monitor()
    run_id = await watcher.start(monitor_id)
    with pytest.raises(Conflict) as refused:
        await watcher.start(monitor_id)
    assert refused.value.code == "run_in_progress"
    assert refused.value.details == {"run_id": str(run_id)}


async def test_a_monitor_without_targets_has_no_run(watcher: Watcher) -> None:
    monitor_id = await watcher.monitor([])
    with pytest.raises(Conflict) as refused:
        await watcher.start(monitor_id)
    assert refused.value.code == "no_targets"


async def test_only_changes_that_meet_a_condition_are_told_and_the_list_s_count_where_there_are_no_others(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    [target] = addresses(1)
    becomes = [{"field": "threat.classification", "becomes": "malicious"}]
    above = [{"field": "threat.abuse_score", "above": 50}]
    async with watcher.database.transaction() as connection:
        listed = await lists.create(connection, watcher.actor, "l", "ip", [target], above)
    own = await watcher.monitor([target], when=becomes)
    of_list = await watcher.monitor([], list_id=listed.id)
    for monitor_id in (own, of_list):
        await watcher.found(monitor_id, notifier)
    scanner.greynoise, scanner.abuseipdb = scanned_as("malicious"), reported(score=90)
    told: list[dict[str, object]] = []
    for monitor_id in (own, of_list):
        _, [result] = await watcher.found(monitor_id, notifier)
        told.append(result["changes"])
    assert told == [
        {"threat.classification": {"old": "benign", "new": "malicious"}},
        {"threat.abuse_score": {"old": 3, "new": 90}},
    ]
    scanner.greynoise = scanned_as("benign")
    run, [result] = await watcher.found(own, notifier)
    assert (run.changes_detected, result["changes"], result["has_changes"]) == (0, None, False)
