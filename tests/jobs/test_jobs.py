"""A job looks up the different targets of its rows once each, and costs what was answered."""

from __future__ import annotations

from typing import Any

import pytest

import providers.lookup.lookup
import providers.lookup.offline_answers
from models.jobs.jobs import JobType
from notifications import Notifier
from providers.lookup.result import LookupResult
from providers.sources.base import Query
from providers.sources.kind import Kind
from sealing import Keyring
from tests.deliveries.receivers import Hooks
from tests.jobs.jobs import ABUSE, Jobber
from tests.monitors.watching import Scanner, addresses, answering


async def test_every_row_has_an_answer_at_the_end(
    jobber: Jobber, notifier: Notifier, scanner: Scanner
) -> None:
    targets = addresses(450)
    job = await jobber.ended(await jobber.accept(targets, notifier))
    assert (job.status, job.total_rows, job.processed_rows, job.failed_rows) == ("completed", 450, 450, 0)
    found = await jobber.answers(job.id)
    assert [one["data"]["ip_address"] for one in found] == targets
    assert {one["data"]["threat"]["abuse_score"] for one in found} == {3}
    assert job.eta_seconds is None and job.credits_held == 0


async def test_a_target_of_several_rows_is_looked_up_and_paid_once(
    jobber: Jobber, notifier: Notifier, scanner: Scanner
) -> None:
    first, second = addresses(2)
    job = await jobber.ended(await jobber.accept([first, second, first, first], notifier))
    assert (job.processed_rows, job.succeeded_rows) == (4, 4)
    assert len(await jobber.answers(job.id)) == 2
    assert scanner.asked["abuseipdb", first] == 1


@pytest.mark.parametrize(("type", "different"), [("company", 2), ("darkweb", 2), ("username", 5)])
async def test_a_name_in_another_case_or_encoding_is_the_same_target(
    type: JobType, different: int, jobber: Jobber
) -> None:
    names = ["Société Sample", "SOCIÉTÉ  SAMPLE", "socie\u0301te\u0301 sample", "Sample", "sample"]
    job_id = await jobber.accept(names, type=type, price=0)
    [chunk] = await jobber.rows("select targets, row_counts from job_chunks where job_id = %s", job_id)
    assert len(chunk["targets"]) == different
    assert (chunk["targets"][0], sum(chunk["row_counts"])) == (names[0], 5)


async def test_a_row_without_a_target_has_failed_and_the_others_go_on(
    jobber: Jobber, notifier: Notifier, scanner: Scanner
) -> None:
    job = await jobber.ended(await jobber.accept([None, *addresses(2), None], notifier))
    assert (job.status, job.processed_rows, job.failed_rows) == ("completed", 4, 2)


async def test_a_job_without_any_target_is_completed_with_failed_rows(
    jobber: Jobber, notifier: Notifier
) -> None:
    job = await jobber.ended(await jobber.accept([None, None], notifier))
    assert (job.status, job.processed_rows, job.failed_rows) == ("completed", 2, 2)


async def test_a_job_none_of_whose_targets_can_be_looked_up_has_failed(
    jobber: Jobber, notifier: Notifier, scanner: Scanner
) -> None:
    scanner.greynoise = scanner.abuseipdb = answering(404)
    job = await jobber.ended(await jobber.accept(["example.invalid"], notifier, type="domain"))
    assert job.status == "failed" and job.error is not None
    assert (job.error["code"], job.credits_used) == ("all_rows_failed", 0)


async def test_a_target_that_its_lookup_refuses_fails_with_the_code_of_what_is_wrong(
    jobber: Jobber, notifier: Notifier
) -> None:
    job = await jobber.ended(await jobber.accept(["-"], notifier, type="company"))
    [answer] = await jobber.answers(job.id)
    assert answer["error"]["code"] == "invalid_company"


async def test_an_end_is_told_once_with_its_figures(
    jobber: Jobber, notifier: Notifier, scanner: Scanner, keyring: Keyring
) -> None:
    await Hooks(jobber.database, keyring, jobber.account_id).endpoint("http://127.0.0.1:9/")
    job = await jobber.ended(await jobber.accept([None, *addresses(1)], notifier))
    [event] = await jobber.events(job.id)
    assert event["type"] == "bulk.job.completed"
    told = event["data"]
    assert (told["total_rows"], told["succeeded_rows"], told["failed_rows"]) == (2, 1, 1)


@pytest.mark.parametrize("fields", [["location"], ABUSE], ids=["in local data", "at a source"])
async def test_a_target_that_makes_us_fail_fails_alone(
    jobber: Jobber,
    notifier: Notifier,
    scanner: Scanner,
    monkeypatch: pytest.MonkeyPatch,
    fields: list[str],
) -> None:
    targets = addresses(3)
    composed = providers.lookup.offline_answers.compose

    def fail_at_one(kind: Kind, query: Query, *more: Any, **named: Any) -> LookupResult:
        assert query.text != targets[1], "a fault of ours"
        return composed(kind, query, *more, **named)

    for module in (providers.lookup.offline_answers, providers.lookup.lookup):
        monkeypatch.setattr(module, "compose", fail_at_one)
    job = await jobber.ended(await jobber.accept(targets, notifier, fields=fields))
    assert (job.status, job.processed_rows, job.failed_rows) == ("completed", 3, 1)
    failed = [one["query"] for one in await jobber.answers(job.id) if one["error"]]
    assert failed == [1]


@pytest.mark.parametrize("fields", [["location"], ABUSE], ids=["in local data", "at a source"])
async def test_an_answer_that_cannot_be_written_fails_alone(
    jobber: Jobber,
    notifier: Notifier,
    scanner: Scanner,
    monkeypatch: pytest.MonkeyPatch,
    fields: list[str],
) -> None:
    targets = addresses(3)
    told = LookupResult.to_answer

    def half_a_pair(result: LookupResult, *given: Any) -> dict[str, Any]:
        return {**told(result, *given), **({"odd": "\ud800"} if result.query == targets[1] else {})}

    monkeypatch.setattr(LookupResult, "to_answer", half_a_pair)
    job = await jobber.ended(await jobber.accept(targets, notifier, fields=fields))
    assert (job.status, job.processed_rows, job.failed_rows) == ("completed", 3, 1)
