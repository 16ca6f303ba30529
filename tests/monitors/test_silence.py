"""A monitor that is blind says so: in each result, in its runs, and of each source."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from database import Database
from models.identifiers import new_id
from models.monitors import completion, monitors, sources
from models.monitors.monitor_views import MonitorView
from models.monitors.queue import Chunk, TargetResult
from models.webhooks import endpoints
from models.webhooks.endpoints import EndpointSettings
from notifications import Notifier
from providers.lookup.composition import compose
from providers.lookup.coverage import silences
from providers.lookup.offline_answers import lack_of
from providers.lookup.result import SourceResult
from providers.registry import KINDS
from sealing import Keyring
from services.target_comparison import Watching
from tests.api_server import Api
from tests.monitors import asking
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
        chosen = EndpointSettings("https://example.com/", ["monitor.*"], None, {}, None)
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
            await completion.finish(connection, run_id)
    assert await emitted(watcher) == [silent, ("monitor.source_back", "greynoise", "failed")]


async def test_a_source_that_never_had_a_key_is_shown_and_no_event(
    database: Database, watcher: Watcher
) -> None:
    monitor_id = await watcher.monitor(addresses(1))
    async with database.transaction() as connection:
        await sources.add_absent(connection, monitor_id, {"virustotal": "not_set_up"})
    for _ in range(3):
        run_id = await watcher.start(monitor_id)
        await watcher.rows(
            "update monitor_runs set status = 'running', started_at = now() where id = %s", run_id
        )
        silent = '[{"source": "virustotal", "since": null, "why": "not_set_up"}]'
        await watcher.rows(
            "insert into monitor_results (run_id, position, monitor_id, target, has_changes, silent)"
            " values (%s, 0, %s, 't', false, %s)",
            run_id, monitor_id, silent,
        )  # fmt: skip
        async with database.transaction() as connection:
            await completion.finish(connection, run_id)
        await watcher.rows(A_DAY_PASSES, monitor_id)
    assert await emitted(watcher) == []
    [source] = (await shown(database, watcher, monitor_id)).sources
    assert (source.source, source.heard_at, source.why) == ("virustotal", None, "not_set_up")


@pytest.mark.long
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
        "greynoise": SourceResult("rate_limited", detail="http_429"),
        "abuseipdb": SourceResult("cached", stale=True, failure="rate_limited"),
        "virustotal": SourceResult("skipped", detail="no_key"),
        "abstractip": SourceResult("skipped", detail="disabled"),
        "dbip": SourceResult("skipped", detail="no_data"),
        "ptr": SourceResult("timeout"),
    }
    given = [
        (source, outcomes.get(source.spec.name, SourceResult("empty", detail=None)))
        for source in kind.sources
    ]
    assert silences(kind, given, {"threat", "malware", "hostname", "location", "security"}) == {
        "greynoise": "limited", "abuseipdb": "limited", "virustotal": "no_key", "dbip": "no_data",
        "ptr": "failed",
    }  # fmt: skip
    assert silences(kind, given, {"hostname"}) == {"ptr": "failed"}


def watching(*, tracked: Sequence[str] = (), heard_before: Sequence[str] = ()) -> Watching:
    moment = datetime.now(UTC)
    chunk = Chunk(
        *(new_id(), new_id(), new_id()), "ip", False, tracked, (), {}, timedelta(days=1), moment, None,
        [(0, "8.8.8.8")], heard_before=heard_before,
    )  # fmt: skip
    return Watching(chunk, patient=True)


def judged(watching: Watching, **outcomes: SourceResult) -> TargetResult:
    """Return what is recorded of a target of which AbuseIPDB says something, and these sources this."""
    known = SourceResult("ok", {"threat.abuse_score": 3})
    off = SourceResult("skipped", detail="disabled")
    given = [
        (source, outcomes.get(source.spec.name, known if source.spec.name == "abuseipdb" else off))
        for source in watching.kind.sources
    ]
    query = watching.kind.normalise("8.8.8.8", "")
    return watching.judge(0, "8.8.8.8", None, compose(watching.kind, query, given, datetime.now(UTC)))


@pytest.mark.parametrize(
    ("tracked", "heard_before", "reason"),
    [
        ((), (), "not_set_up"),
        (("malware",), (), "no_key"),
        ((), ("virustotal",), "no_key"),
        (("threat",), (), None),
    ],
)
def test_a_source_without_a_key_is_named_as_one_that_never_had_it_or_lost_it(
    tracked: Sequence[str], heard_before: Sequence[str], reason: str | None
) -> None:
    found = judged(
        watching(tracked=tracked, heard_before=heard_before),
        virustotal=SourceResult("skipped", detail="no_key"),
    )
    silent = {one["source"]: one["why"] for one in orjson.loads(found.silent or "[]")}
    assert silent == ({} if reason is None else {"virustotal": reason})


def test_a_source_that_is_left_out_is_named() -> None:
    watch = watching()
    found = judged(watch, rdap=SourceResult("skipped", detail="bulk_use"))
    assert orjson.loads(found.silent or "") == [{"source": "rdap", "since": None, "why": "bulk_use"}]
    assert watch.absent == {"rdap": "bulk_use"}


def test_a_source_that_refuses_for_ever_is_not_waited_for_and_named() -> None:
    watch = watching()
    refusing = SourceResult("rate_limited", detail="refusing", retry_after=3600.0)
    found = judged(watch, greynoise=refusing)
    assert orjson.loads(found.silent or "") == [{"source": "greynoise", "since": None, "why": "limited"}]
    assert found.unheard
    limited = SourceResult("rate_limited", detail="rate_limited", retry_after=60.0)
    assert orjson.loads(judged(watch, greynoise=limited).silent or "")[0]["why"] == "quota"


def test_a_registry_that_is_over_its_limit_has_its_own_targets_wait_alone() -> None:
    watch = watching()
    limited = SourceResult("rate_limited", retry_after=7.0, server="rdap.arin.net")
    given = [(source, limited) for source in watch.kind.sources if source.spec.name == "rdap"]
    result = compose(watch.kind, watch.kind.normalise("8.8.8.8", ""), given, datetime.now(UTC))
    assert watch.waits_of(result) == {"rdap/rdap.arin.net": 7.0}
    lack = lack_of(result)
    assert lack is not None
    assert watch.waits_of(lack) == {"rdap/rdap.arin.net": 7.0}


async def test_results_are_partial_for_want_of_sources_that_are_set_up_alone(
    api: Api, database: Database
) -> None:
    person = await api.person(credits=10)
    monitor_id = await asking.watching(person.key, "a.example.com", "b.example.com")
    absent = [
        {"source": "virustotaldomain", "since": None, "why": "not_set_up"},
        {"source": "whois", "since": None, "why": "bulk_use"},
    ]
    failed = [*absent, {"source": "tls", "since": None, "why": "failed"}]
    found = {"a.example.com": {"silent": absent}, "b.example.com": {"silent": failed}}
    run_id = await asking.run(person, database, monitor_id, found)
    path = f"/api/monitors/{monitor_id}/runs/{run_id}"
    run = await asking.given(person.key, path)
    results = await asking.given(person.key, f"{path}/results")
    assert (run["targets_partial"], [one["source"] for one in run["sources_silent"]]) == (1, ["tls"])
    assert [(one["partial"], one["silent"]) for one in results] == [(False, absent), (True, failed)]
    file = (await person.key.get(f"{path}/results/download")).text
    assert [row["silent"] for row in csv.DictReader(file.splitlines())] == ["whois", "whois; tls"]
