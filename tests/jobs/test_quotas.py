"""A job goes at the pace of its sources: it waits for what they will say soon, and goes on by itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from uuid import UUID

import pytest
from aiohttp import web

import activities.jobs
from models.jobs import acceptance, queue
from models.jobs.queue import RowAnswer
from models.lookups import provider_states
from notifications import Notifier
from services import pacing
from tests.automations.engine import until
from tests.jobs.jobs import ABUSE, Jobber
from tests.monitors.conftest import Work
from tests.monitors.watching import Answer, Scanner, addresses, answering, reported
from tests.stacks import eventually


@pytest.fixture
async def notifier(at_work: Work) -> AsyncGenerator[Notifier]:
    """A worker that remembers no limit."""
    async with at_work() as running:
        yield running


def by_turns(limited: int, answer: Answer, retry_after: str = "1") -> Answer:
    """Say so many times that this was all for now, each time after three answers."""
    asked = 0

    def turn(address: str) -> web.Response:
        nonlocal asked
        asked += 1
        over = asked % 4 == 0 and asked // 4 <= limited
        return web.Response(status=429, headers={"retry-after": retry_after}) if over else answer(address)

    return turn


async def test_a_source_over_its_limit_is_waited_for_though_others_have_answered(
    jobber: Jobber, notifier: Notifier, scanner: Scanner
) -> None:
    scanner.abuseipdb = by_turns(2, reported())
    job = await jobber.ended(await jobber.accept(addresses(12), notifier))
    assert (job.status, job.failed_rows) == ("completed", 0)
    assert {one["data"]["threat"]["abuse_score"] for one in await jobber.answers(job.id)} == {3}


async def test_a_source_that_is_not_wanted_is_not_waited_for(
    jobber: Jobber, notifier: Notifier, scanner: Scanner
) -> None:
    scanner.abuseipdb = answering(429)
    job = await jobber.ended(await jobber.accept(addresses(3), notifier, fields=["location"]))
    assert job.status == "completed" and not scanner.asked


async def test_a_source_that_is_over_its_limit_for_long_is_left_out_where_others_have_answered(
    jobber: Jobber, notifier: Notifier, scanner: Scanner
) -> None:
    scanner.abuseipdb = lambda _: web.Response(status=429, headers={"retry-after": "3600"})
    job = await jobber.ended(await jobber.accept(addresses(3), notifier))
    found = await jobber.answers(job.id)
    assert job.status == "completed" and all(one["partial"] for one in found)
    assert {one["data"]["threat"]["abuse_score"] for one in found} == {None}


async def waits(jobber: Jobber, job_id: UUID) -> bool:
    """Return whether a job says that it waits, and how long it takes."""
    job = await jobber.job(job_id)
    return job.resumes_at is not None and (job.eta_seconds or 0) > 0 and job.status == "running"


async def test_the_time_in_which_nobody_was_at_work_exhausts_no_patience(
    jobber: Jobber, at_work: Work, scanner: Scanner
) -> None:
    scanner.abuseipdb = by_turns(1, reported())
    job_id = await jobber.accept(addresses(6))
    async with jobber.database.connection() as connection:
        await queue.claim(connection, 32)
        hours_ago = "clock_timestamp() - interval '2 hours'"
        await connection.execute(f"update jobs set progressed_at = {hours_ago}, probed_at = {hours_ago}")
    async with at_work():
        await jobber.ended(job_id)
    assert {one["data"]["threat"]["abuse_score"] for one in await jobber.answers(job_id)} == {3}


@pytest.fixture
def sleeping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every wait is a timer of the workflow."""
    monkeypatch.setattr(activities.jobs, "_PAUSE_SECONDS", 0.1)


@pytest.mark.usefixtures("sleeping")
async def test_a_job_that_nobody_answers_for_now_sleeps_says_until_when_and_goes_on_by_itself(
    jobber: Jobber, notifier: Notifier, scanner: Scanner
) -> None:
    scanner.abuseipdb = by_turns(1, reported(), retry_after="2")
    job_id = await jobber.accept(addresses(8), notifier, fields=ABUSE)
    await until(lambda: waits(jobber, job_id))
    job = await jobber.ended(job_id)
    assert (job.status, job.processed_rows, job.failed_rows) == ("completed", 8, 0)
    assert job.resumes_at is None


async def test_a_failure_of_a_moment_is_tried_once_more(
    jobber: Jobber, notifier: Notifier, scanner: Scanner
) -> None:
    failing = iter([answering(503), answering(503)])
    scanner.abuseipdb = lambda address: next(failing, reported())(address)
    job = await jobber.ended(await jobber.accept(addresses(2), notifier, fields=ABUSE))
    assert (job.status, job.failed_rows) == ("completed", 0)


async def test_a_source_that_is_left_alone_after_failures_is_waited_for(
    jobber: Jobber, notifier: Notifier, scanner: Scanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_states, "OPEN_SECONDS", 4.0)
    monkeypatch.setattr(provider_states, "PROBE_SECONDS", 1.0)
    monkeypatch.setattr(pacing, "_AGAIN_SECONDS", (1.0, 1.0))
    failing = iter([answering(503)] * 10)
    scanner.abuseipdb = lambda address: next(failing, reported())(address)
    job = await jobber.ended(await jobber.accept(addresses(10), notifier, fields=ABUSE))
    assert (job.status, job.processed_rows, job.failed_rows) == ("completed", 10, 0)


@pytest.mark.parametrize(
    ("fields", "name", "failed"),
    [(None, "PATIENCE_SECONDS", 0), (ABUSE, "LONGEST_SECONDS", 3)],
    ids=["answered by others", "answered by nobody"],
)
async def test_a_limit_that_never_ends_ends_no_job_never(
    jobber: Jobber,
    notifier: Notifier,
    scanner: Scanner,
    monkeypatch: pytest.MonkeyPatch,
    fields: list[str] | None,
    name: str,
    failed: int,
) -> None:
    monkeypatch.setattr(pacing, name, 0.5)
    scanner.abuseipdb = lambda _: web.Response(status=429, headers={"retry-after": "1"})
    job = await jobber.ended(await jobber.accept(addresses(3), notifier, fields=fields))
    assert (job.processed_rows, job.failed_rows) == (3, failed)


@pytest.mark.usefixtures("sleeping")
async def test_a_job_says_until_when_it_waits_though_others_of_its_targets_were_known(
    jobber: Jobber, notifier: Notifier, scanner: Scanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptance, "CHUNK", 1)
    known, [unknown] = addresses(12), addresses(1)
    await jobber.ended(await jobber.accept(known, notifier, fields=ABUSE))
    scanner.abuseipdb = lambda _: web.Response(status=429, headers={"retry-after": "3600"})
    job_id = await jobber.accept([unknown, *known], notifier, fields=ABUSE)
    await jobber.processed(job_id, 12)
    await until(lambda: waits(jobber, job_id))
    await jobber.cancel(job_id)


async def test_a_worker_that_stops_leaves_targets_that_wait_to_the_next(
    jobber: Jobber, at_work: Work, scanner: Scanner
) -> None:
    scanner.abuseipdb = lambda _: web.Response(status=429, headers={"retry-after": "15"})
    async with at_work() as notifier:
        job_id = await jobber.accept(addresses(3), notifier, fields=ABUSE)
        await eventually(lambda: bool(scanner.asked))
    assert (await jobber.rows("select resumes_at from jobs where id = %s", job_id))[0]["resumes_at"]
    await jobber.cancel(job_id)


async def test_rows_that_are_given_up_leave_the_time_until_which_others_wait(jobber: Jobber) -> None:
    job_id = await jobber.accept(addresses(2))
    async with jobber.database.connection() as connection:
        await queue.claim(connection, 32)
        await queue.mark_waiting(connection, job_id, 3600)
        await connection.execute("update jobs set progressed_at = clock_timestamp() - interval '1 hour'")
    async with jobber.database.transaction() as connection:
        await queue.record(connection, [RowAnswer(job_id, 0, 1, data="{}", given_up=True)])
    assert (await jobber.job(job_id)).resumes_at is not None
    await jobber.cancel(job_id)


async def test_a_job_that_waits_for_its_sources_leaves_its_room_to_another(jobber: Jobber) -> None:
    first, second = [await jobber.accept(addresses(2)) for _ in range(2)]
    async with jobber.database.connection() as connection:
        assert [job.job_id for job in await queue.claim(connection, 1)] == [first]
        await queue.mark_waiting(connection, first, 3600)
        assert await queue.claim(connection, 1) == []
        await connection.execute("update jobs set progressed_at = clock_timestamp() - interval '1 hour'")
        assert [job.job_id for job in await queue.claim(connection, 1)] == [second]
    for job_id in (first, second):
        await jobber.cancel(job_id)
