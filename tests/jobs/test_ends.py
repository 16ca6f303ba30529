"""How jobs end: held and settled to what was delivered, cancelled, deleted, and removed after some time."""

from __future__ import annotations

import pytest
from temporalio.client import Client

from models.accounts import keys
from models.errors import Conflict, InsufficientCredits, NotFound
from models.identifiers import new_id
from models.jobs import acceptance, cleanup, results
from models.jobs.jobs import list_some
from notifications import Notifier
from temporal import starts
from tests.automations.engine import until
from tests.jobs.conftest import NewJobber
from tests.jobs.jobs import VALID, Jobber
from tests.monitors.watching import Scanner, addresses

NOT_VALID = "+999123456789"


async def test_what_the_lookups_can_cost_is_held_and_the_end_keeps_what_they_did(
    jobber: Jobber, notifier: Notifier
) -> None:
    job_id = await jobber.accept([*VALID, NOT_VALID, VALID[0]], type="phone")
    job = await jobber.job(job_id)
    assert (job.status, job.credits_held) == ("queued", 11)
    assert await jobber.balance() == (989, 11, 0)
    notifier.notify("jobs_changed")
    job = await jobber.ended(job_id)
    assert (job.status, job.credits_used, job.credits_held) == ("completed", 10, 0)
    assert await jobber.balance() == (990, 0, 10)


async def test_a_job_that_the_balance_does_not_cover_is_refused_and_leaves_nothing(
    new_jobber: NewJobber,
) -> None:
    poor = await new_jobber(5)
    with pytest.raises(InsufficientCredits) as refused:
        await poor.accept(VALID, type="phone")
    assert refused.value.details == {"required": 10, "balance": 5}
    assert await poor.balance() == (5, 0, 0)
    for table in ("jobs", "job_rows", "job_chunks"):
        column = "account_id" if table == "jobs" else "job_id"
        known = poor.account_id if table == "jobs" else None
        assert not await poor.rows(f"select 1 from {table} where {column} = %s", known)


async def test_what_costs_nothing_is_accepted_at_a_balance_of_nothing(
    new_jobber: NewJobber, notifier: Notifier, scanner: Scanner
) -> None:
    poor = await new_jobber(0)
    job = await poor.ended(await poor.accept(addresses(2), notifier))
    assert (job.status, job.credits_used) == ("completed", 0)


async def test_the_use_counts_for_the_key_that_has_started_the_job(
    new_jobber: NewJobber, notifier: Notifier
) -> None:
    jobber = await new_jobber()
    async with jobber.database.transaction() as connection:
        made, _ = await keys.create_key(connection, jobber.actor, "k", ["bulk"], None)
    jobber.key_id = made.id
    await jobber.ended(await jobber.accept(VALID[:3], notifier, type="phone"))
    [row] = await jobber.rows("select credits_used from keys where id = %s", made.id)
    assert row["credits_used"] == 3


async def test_the_same_job_asked_for_twice_is_one(jobber: Jobber, notifier: Notifier) -> None:
    job_id = new_id()
    for _ in range(2):
        await jobber.accept(VALID[:2], notifier, type="phone", job_id=job_id)
    await jobber.ended(job_id)
    assert await jobber.balance() == (998, 0, 2)


async def test_an_account_may_have_only_so_many_jobs_under_way(
    jobber: Jobber, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptance, "MOST_UNFINISHED", 2)
    held = [await jobber.accept(addresses(1)) for _ in range(2)]
    with pytest.raises(Conflict) as refused:
        await jobber.accept(addresses(1))
    assert refused.value.code == "too_many_jobs"
    await jobber.cancel(held[0])
    await jobber.accept(addresses(1))


async def test_a_cancelled_job_ends_at_once_keeps_what_it_has_found_and_pays_for_that(
    jobber: Jobber, notifier: Notifier, scanner: Scanner, client: Client
) -> None:
    targets = addresses(5)
    scanner.held = set(targets[3:])
    job_id = await jobber.accept(targets, notifier)
    await jobber.processed(job_id, 3)
    await jobber.cancel(job_id)
    job = await jobber.job(job_id)
    assert (job.status, job.processed_rows, job.credits_held) == ("cancelled", 3, 0)
    scanner.go.set()
    await client.get_workflow_handle(starts.job_workflow_id(job_id)).result()
    assert len(await jobber.answers(job_id)) == 3
    async with jobber.database.connection() as connection:
        read = await results.read_after(connection, job_id, after=-1, limit=10)
    assert [one.position for one in read] == [0, 1, 2]


async def test_of_a_cancelled_job_no_source_is_asked_any_more(
    jobber: Jobber, notifier: Notifier, scanner: Scanner, client: Client
) -> None:
    targets = addresses(100)
    scanner.held = set(targets)
    job_id = await jobber.accept(targets, notifier, fields=["threat.abuse_score"])
    alone = 32  # half of the places of a worker

    async def asked_at_all_places() -> bool:
        return len(scanner.asked) >= alone

    await until(asked_at_all_places)
    await jobber.cancel(job_id)
    scanner.go.set()
    await client.get_workflow_handle(starts.job_workflow_id(job_id)).result()
    assert len(scanner.asked) == alone


async def test_a_cancelled_job_that_had_not_begun_costs_nothing(jobber: Jobber) -> None:
    job_id = await jobber.accept(VALID, type="phone")
    await jobber.cancel(job_id)
    await jobber.cancel(job_id)
    assert (await jobber.job(job_id)).status == "cancelled"
    assert await jobber.balance() == (1000, 0, 0)


async def test_a_deleted_job_is_cancelled_seen_by_nobody_and_leaves_nothing(
    jobber: Jobber, notifier: Notifier, scanner: Scanner
) -> None:
    targets = addresses(3)
    scanner.held = set(targets[2:])
    job_id = await jobber.accept(targets, notifier)
    await jobber.processed(job_id, 2)
    await jobber.delete(job_id)
    with pytest.raises(NotFound):
        await jobber.job(job_id)
    with pytest.raises(NotFound):
        await jobber.cancel(job_id)
    scanner.go.set()

    async def gone() -> bool:
        left = [
            await jobber.rows("select 1 from jobs where id = %s", job_id),
            await jobber.rows("select 1 from job_rows where job_id = %s", job_id),
            await jobber.rows("select 1 from job_answers where job_id = %s", job_id),
        ]
        return not any(left)

    await until(gone)


async def test_a_job_goes_when_it_has_been_kept_for_long_enough(
    jobber: Jobber, notifier: Notifier, scanner: Scanner
) -> None:
    old, new = [(await jobber.ended(await jobber.accept(addresses(1), notifier))).id for _ in range(2)]
    await jobber.rows(
        "update jobs set completed_at = now() - interval '91 days' where id = %s returning 1", old
    )
    async with jobber.database.connection() as connection:
        assert await cleanup.hide_old(connection, 90) >= 1
        shown, _ = await list_some(connection, jobber.account_id, before=None, limit=10)
    assert [job.id for job in shown] == [new]


async def test_jobs_are_listed_newest_first_in_pages(jobber: Jobber) -> None:
    made = [await jobber.accept([None]) for _ in range(3)]
    async with jobber.database.connection() as connection:
        first, last = await list_some(connection, jobber.account_id, before=None, limit=2)
        second, end = await list_some(connection, jobber.account_id, before=last, limit=2)
    assert [job.id for job in (*first, *second)] == made[::-1]
    assert last == made[1] and end is None
