"""Whoever is lost while a job is under way: what was recorded stands, and nothing is paid twice."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.worker import ExecuteActivityInput

from models import work_queue
from models.jobs import acceptance, queue
from models.jobs.queue import Found
from settings import Settings
from temporal import starts
from tests.automations.engine import hasty_worker
from tests.automations.faults import Do, Lost
from tests.jobs.jobs import VALID, Jobber
from tests.monitors.conftest import Work
from tests.monitors.watching import Scanner, addresses
from tests.stacks import eventually
from workflows.messages import LOOK_UP_ROWS

pytestmark = pytest.mark.long

DEATHS = ["models.jobs.queue:claim", "temporal.starts:start_job", "models.jobs.queue:record"]


@pytest.mark.usefixtures("short_periods")
@pytest.mark.parametrize("after", DEATHS, ids=["its claim", "the start", "a record"])
async def test_the_job_of_a_worker_that_is_killed_is_finished_by_the_next(
    jobber: Jobber, watching_settings: Settings, at_work: Work, after: str
) -> None:
    job_id = await jobber.accept([*VALID, *VALID, None], type="phone")
    with hasty_worker(watching_settings, after, VEDETTE_LOCAL_ONLY="1") as dying:
        await eventually(lambda: dying.exitcode is not None, 20, "the worker has died")
        assert dying.exitcode == -signal.SIGKILL
    async with at_work():
        job = await jobber.ended(job_id, 45)
    assert (job.status, job.processed_rows, job.failed_rows) == ("completed", 21, 1)
    assert (job.credits_used, await jobber.balance()) == (10, (990, 0, 10))
    assert len(await jobber.answers(job_id)) == 10


async def test_a_lost_activity_repeats_no_target_that_was_recorded(
    jobber: Jobber, at_work: Work, scanner: Scanner
) -> None:
    targets = addresses(6)
    lost: list[str] = []

    async def lose_the_first(given: ExecuteActivityInput, do: Do) -> Any:
        if lost or given.fn.__name__ != LOOK_UP_ROWS:
            return await do()
        lost.append(given.fn.__name__)
        scanner.held = {targets[5]}
        doing = asyncio.ensure_future(do())
        await jobber.processed(job_id, 5)
        doing.cancel()
        scanner.held = set()
        raise Lost

    job_id = await jobber.accept(targets)
    async with at_work(lose_the_first):
        job = await jobber.ended(job_id)
    assert lost and (job.status, job.processed_rows) == ("completed", 6)
    assert {scanner.asked["abuseipdb", one] for one in targets[:5]} == {1}


async def test_two_attempts_at_a_target_record_it_once(jobber: Jobber) -> None:
    job_id = await jobber.accept(["a", "a", "b"], price=1)
    async with jobber.database.connection() as connection:
        await queue.claim(connection, 32)
    found = Found(job_id, 0, 2, data="{}", credits=1)
    for _ in range(2):
        async with jobber.database.transaction() as connection:
            assert await queue.record(connection, [found, found]) == [True, True]
    job = await jobber.job(job_id)
    assert (job.processed_rows, job.succeeded_rows, job.credits_used) == (2, 2, 1)
    await jobber.cancel(job_id)


@pytest.mark.usefixtures("short_periods")
async def test_a_job_whose_workflow_was_ended_from_outside_fails_and_says_so(
    jobber: Jobber, at_work: Work, scanner: Scanner, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_queue, "_UNSEEN_SECONDS", 2)
    targets = addresses(3)
    scanner.held = set(targets[2:])
    async with at_work() as notifier:
        job_id = await jobber.accept(targets, notifier)
        await jobber.processed(job_id, 2)
        await client.get_workflow_handle(starts.job_workflow_id(job_id)).terminate()
        job = await jobber.ended(job_id, 45)
        scanner.go.set()
    assert job.status == "failed" and job.error is not None
    assert (job.error["code"], job.processed_rows) == ("job_lost", 2)
    assert "terminated" in job.error["message"]


async def test_what_one_chunk_has_waited_for_in_vain_the_next_does_not(
    jobber: Jobber, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptance, "CHUNK", 1)
    job_id = await jobber.accept(["a", "b"])
    async with jobber.database.connection() as connection:
        await queue.claim(connection, 32)
        await connection.execute(
            "update jobs set progressed_at = clock_timestamp() - interval '20 minutes' where id = %s",
            (job_id,),
        )
    async with jobber.database.transaction() as connection:
        await queue.record(connection, [Found(job_id, 0, 1, data="{}", given_up=True)])
        chunk = await queue.open_chunk(connection, job_id, 1)
    assert chunk is not None and 1200 <= chunk.idle_seconds < 1300
    await jobber.cancel(job_id)
