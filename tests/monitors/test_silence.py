"""A monitor that is blind says so: in each result, in its runs, and of each source."""

from __future__ import annotations

from typing import Any

from database import Database, Notifier
from models import endpoints
from models.endpoints import Chosen
from models.monitors import ending, monitors, sources
from models.monitors.monitors import MonitorView
from providers.hearing import silences
from providers.registry import KINDS
from providers.result import Outcome
from sealing import Keyring
from tests.monitors.watching import Scanner, Watcher, addresses, answering, scanned_as

A_DAY_PASSES = (
    "update monitor_sources set silent_since = silent_since - interval '1 day' where monitor_id = %s"
)
TRACKED = ["threat.abuse_score", "threat.classification"]


async def shown(database: Database, watcher: Watcher, monitor_id: Any) -> MonitorView:
    async with database.connection() as connection:
        return await monitors.get(connection, watcher.account_id, monitor_id, 90)


def why(result: dict[str, Any]) -> dict[str, str]:
    return {one["source"]: one["why"] for one in result["silent"] or []}


async def test_a_source_that_fails_stands_in_results_runs_and_the_monitor(
    database: Database, watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    monitor_id = await watcher.monitor(tracked_fields=TRACKED, change_detection="full_refresh")
    run, [result] = await watcher.found(monitor_id, notifier)
    assert (result["silent"], run.targets_partial, run.sources_silent) == (None, 0, [])
    heard = {one.source: one.heard_at for one in (await shown(database, watcher, monitor_id)).sources}
    assert heard["greynoise"] and heard["abuseipdb"]

    scanner.greynoise = answering(401)
    run, [result] = await watcher.found(monitor_id, notifier)
    assert why(result) == {"greynoise": "failed"}
    assert result["silent"][0]["since"] is not None
    assert run.targets_partial == 1
    [silent] = run.sources_silent
    assert (silent.source, silent.why, silent.targets) == ("greynoise", "failed", 1)
    [source] = [
        one for one in (await shown(database, watcher, monitor_id)).sources if one.source == "greynoise"
    ]
    assert (source.heard_at, source.why) == (heard["greynoise"], "failed")
    assert source.silent_since is not None
    assert source.silent_since >= run.started_at  # pyright: ignore[reportOperatorIssue]

    scanner.greynoise = scanned_as("benign")
    async with database.connection() as connection:
        await connection.execute("truncate provider_states")


async def emitted(watcher: Watcher) -> list[tuple[str, str, str]]:
    rows = await watcher.rows(
        "select type, data from events where account_id = %s and type like 'monitor.source%%' order by id",
        watcher.account_id,
    )
    return [(one["type"], one["data"]["source"], one["data"]["why"]) for one in rows]


async def test_a_silence_is_told_once_when_it_lasts_and_so_is_its_end(
    watcher: Watcher, notifier: Notifier, scanner: Scanner, keyring: Keyring
) -> None:
    async with watcher.database.transaction() as connection:
        chosen = Chosen("https://example.com/", ["monitor.*"], None, {}, None)
        await endpoints.create(connection, keyring, watcher.actor, chosen, "whsec_c2VjcmV0")
    monitor_id = await watcher.monitor(
        addresses(2), tracked_fields=TRACKED, change_detection="full_refresh", name="Our hosts"
    )
    await watcher.found(monitor_id, notifier)
    scanner.greynoise = answering(401)
    await watcher.found(monitor_id, notifier)
    await watcher.rows(A_DAY_PASSES, monitor_id)
    assert await emitted(watcher) == []
    await watcher.found(monitor_id, notifier)
    silent = ("monitor.source_silent", "greynoise", "failed")
    assert await emitted(watcher) == [silent]
    await watcher.found(monitor_id, notifier)
    assert await emitted(watcher) == [silent]

    run_id = await watcher.start(monitor_id)
    heard = "update monitor_runs set sources_heard = '{greynoise}', status = 'running' where id = %s"
    await watcher.rows(heard, run_id)
    for _ in range(2):
        async with watcher.database.transaction() as connection:
            await ending.finish(connection, run_id)
    assert await emitted(watcher) == [silent, ("monitor.source_back", "greynoise", "failed")]


async def test_a_source_that_never_had_a_key_is_shown_and_no_event(
    database: Database, watcher: Watcher
) -> None:
    monitor_id = await watcher.monitor(addresses(1))
    async with database.transaction() as connection:
        await sources.add_keyless(connection, monitor_id, {"virustotal"})
    for _ in range(3):
        run_id = await watcher.start(monitor_id)
        await watcher.rows(
            "update monitor_runs set status = 'running', started_at = now() where id = %s", run_id
        )
        silent = '[{"source": "virustotal", "since": null, "why": "no_key"}]'
        await watcher.rows(
            "insert into monitor_results (run_id, position, monitor_id, target, has_changes, silent)"
            " values (%s, 0, %s, 't', false, %s)",
            run_id, monitor_id, silent,
        )  # fmt: skip
        async with database.transaction() as connection:
            await ending.finish(connection, run_id)
        await watcher.rows(A_DAY_PASSES, monitor_id)
    assert await emitted(watcher) == []
    [source] = (await shown(database, watcher, monitor_id)).sources
    assert (source.source, source.heard_at, source.why) == ("virustotal", None, "no_key")


async def test_a_run_in_which_nobody_was_heard_names_all(
    database: Database, watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    scanner.greynoise = scanner.abuseipdb = answering(401)
    monitor_id = await watcher.monitor(tracked_fields=TRACKED)
    run, [result] = await watcher.found(monitor_id, notifier)
    assert why(result) == {"greynoise": "failed", "abuseipdb": "failed"}
    assert result["silent"][0]["since"] is None
    assert (run.targets_partial, run.credits_used) == (1, 0)


def test_each_silence_has_its_reason() -> None:
    kind = KINDS["ip"]
    outcomes = {
        "greynoise": Outcome("rate_limited", detail="http_429"),
        "abuseipdb": Outcome("cached", stale=True, failure="rate_limited"),
        "virustotal": Outcome("skipped", detail="no_key"),
        "abstractip": Outcome("skipped", detail="disabled"),
        "dbip": Outcome("skipped", detail="no_data"),
        "ptr": Outcome("timeout"),
    }
    given = [
        (source, outcomes.get(source.spec.name, Outcome("empty", detail=None))) for source in kind.sources
    ]
    assert silences(kind, given, {"threat", "malware", "hostname", "location", "security"}) == {
        "greynoise": "limited", "abuseipdb": "limited", "virustotal": "no_key", "dbip": "no_data",
        "ptr": "failed",
    }  # fmt: skip
    assert silences(kind, given, {"hostname"}) == {"ptr": "failed"}
