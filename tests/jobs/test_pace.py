"""For whom a job waits: for a source over its limit only where a wanted field would else be null."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from aiohttp import web

from models.jobs.jobs import JobView
from models.lookups.lookups import AllProvidersFailed
from providers.lookup.lookup import AskedSources
from providers.lookup.result import LookupResult, SourceResult
from providers.registry import KINDS
from providers.sources.base import LocalSource, RemoteSource
from services import pacing
from settings import Settings
from tests.datasets import write_small_datasets
from tests.jobs.jobs import Jobber
from tests.lookups.composing import answer
from tests.monitors.conftest import Work
from tests.monitors.watching import Answer, Scanner

LIMITED = SourceResult("rate_limited", retry_after=3)
OFF = SourceResult("skipped", detail="no_key")
HERE = SourceResult("ok", {"location.country_code": "US"})
FOUND = SourceResult("ok", {"services": ["Adobe"]})


def told(kind: str, **outcomes: SourceResult) -> LookupResult:
    sources = KINDS[kind].sources
    return answer(KINDS[kind], [(source, outcomes.get(source.spec.name, OFF)) for source in sources])


@pytest.mark.parametrize(
    ("result", "fields", "waits"),
    [
        # Named fields: for what is null.
        (told("ip", dbip=HERE, abuseipdb=LIMITED), ["threat.abuse_score"], True),
        (told("ip", dbip=HERE, abuseipdb=LIMITED), ["threat"], True),
        (told("ip", dbip=HERE, abuseipdb=LIMITED), ["verdict"], True),
        (told("ip", dbip=HERE, abstractip=LIMITED), ["location.country_code"], False),
        (told("ip", dbip=HERE, abstractip=LIMITED), ["location.country_code", "security"], True),
        (told("ip", abstractip=LIMITED), ["location.country_code"], True),
        # And for what all add to.
        (told("breach", hibp=FOUND, leakcheck=LIMITED), ["services"], True),
        (told("breach", hibp=FOUND, leakcheck=LIMITED), ["breaches"], True),
        # None named: for all, but not where an address has been found in the data here.
        (told("ip", dbip=HERE, abuseipdb=LIMITED), None, False),
        (told("ip", asn=SourceResult("ok", {"asn.asn": 15169}), abuseipdb=LIMITED), None, False),
        (
            told("ip", greynoise=SourceResult("ok", {"threat.is_scanner": True}), abuseipdb=LIMITED),
            None,
            True,
        ),
        (told("breach", hibp=FOUND, leakcheck=LIMITED), None, True),
        (told("breach", hibp=FOUND, leakcheck=SourceResult("timeout")), None, False),
    ],
)
def test_a_source_over_its_limit_is_waited_for_where_a_wanted_field_is_null_without_it(
    result: LookupResult, fields: list[str] | None, waits: bool
) -> None:
    assert pacing.wait_for_more(result, fields, 0.0) == (3 if waits else None)


def test_a_source_that_was_asked_while_others_were_waited_for_is_not_waited_for() -> None:
    result = told("breach", hibp=LIMITED, leakcheck=LIMITED)
    assert pacing.wait_for_more(result, ["services"], 0.0, {"hibp"}) == 3
    assert pacing.wait_for_more(result, ["services"], 0.0, {"hibp", "leakcheck"}) is None


def test_a_source_that_does_not_take_a_query_is_not_waited_for_when_nobody_has_answered() -> None:
    refused = {"name": "hibp", "status": "rejected"}
    limited = {"name": "leakcheck", "status": "rate_limited", "retry_after": 3}
    error = AllProvidersFailed([refused, limited])
    assert pacing.wait_for_any(error, 0, 0.0, {"hibp"}) == (3, True)
    assert pacing.wait_for_any(error, 2, 0.0, {"hibp", "leakcheck"}) is None


ADDRESSES = [f"8.8.8.{number}" for number in range(200)]
"""They are in the data here."""


@pytest.fixture
def data(watching_settings: Settings) -> Generator[None]:
    write_small_datasets(watching_settings.data)
    yield
    for path in (watching_settings.data / "datasets").iterdir():
        path.unlink()


def once_in_a_minute(answer: Answer) -> Answer:
    """Answer the first, and refuse all after it."""
    asked = 0

    def turn(address: str) -> web.Response:
        nonlocal asked
        asked += 1
        return answer(address) if asked == 1 else web.Response(status=429, headers={"retry-after": "50"})

    return turn


@pytest.mark.usefixtures("data")
async def test_a_slow_source_fills_what_it_can_within_the_pace_of_the_rest(
    jobber: Jobber, at_work: Work, scanner: Scanner
) -> None:
    scanner.abuseipdb = once_in_a_minute(scanner.abuseipdb)
    async with at_work() as notifier:  # it opens the data that is there now
        job = await jobber.ended(await jobber.accept(ADDRESSES, notifier))
    assert (job.status, job.processed_rows, job.failed_rows) == ("completed", 200, 0)
    found = await jobber.answers(job.id)
    assert {one["data"]["location"]["country_code"] for one in found} == {"US"}
    scored = [one for one in found if one["data"]["threat"]["abuse_score"] is not None]
    assert len(scored) == 1
    assert all(one["partial"] for one in found if one not in scored)


def asked_of(kind: str, *names: str) -> AskedSources:
    """These sources over the network, and none here."""
    return AskedSources(
        [one for one in KINDS[kind].sources if isinstance(one, RemoteSource) and one.spec.name in names], []
    )


def job_of(type: Any, rows: int, fields: list[str] | None = None) -> JobView:
    return JobView.model_construct(type=type, total_rows=rows, fields=fields)


def test_a_job_that_a_source_makes_slow_is_told_how_long_it_takes() -> None:
    [warning] = pacing.warnings_of(asked_of("breach", "leakcheck"), job_of("breach", 10_000))
    assert warning == {
        "code": "slow_source",
        "message": "leakcheck allows 1 request a second: 10,000 rows take 2 h 47 min."
        " Name other fields to go without it.",
    }
    assert pacing.warnings_of(asked_of("breach", "leakcheck"), job_of("breach", 50)) == []


def test_the_slowest_of_several_windows_says_how_long_a_source_takes() -> None:
    [(source, seconds)] = pacing.pace_of(asked_of("breach", "xposedornot"), "breach", None, 100)
    assert source.spec.name == "xposedornot"
    # A day has 80 for who waits: the last of 100 is the 20th of the next day, and an hour has 20.
    assert seconds == 86_400 + 19
    [(_, seconds)] = pacing.pace_of(asked_of("breach", "xposedornot"), "breach", None, 60)
    assert seconds == 2 * 3600 + 19
    [(_, seconds)] = pacing.pace_of(asked_of("ip", "virustotal"), "ip", ["malware"], 500)
    assert seconds == 86_400 + 33 * 60
    assert pacing.pace_of(asked_of("ip", "virustotal"), "ip", ["location"], 500) == []


def test_a_job_that_is_longer_than_a_days_quota_is_told_how_far_that_goes() -> None:
    [warning] = pacing.warnings_of(asked_of("ip", "virustotal"), job_of("ip", 10_000, ["malware"]))
    assert warning["message"] == (
        "virustotal allows 4 requests in 60 s and 500 requests in 24 h: the first 400 rows take 2 h 13 min,"
        " the others may go without it. Name other fields to go without it."
    )


def test_there_is_no_warning_of_a_source_that_is_not_waited_for() -> None:
    remote = asked_of("breach", "leakcheck").remote
    local = [one for one in KINDS["ip"].sources if isinstance(one, LocalSource) and one.spec.name == "dbip"]
    assert pacing.warnings_of(AskedSources(remote, local), job_of("ip", 10_000)) == []
