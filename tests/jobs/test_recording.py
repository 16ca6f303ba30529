"""What is recorded of a job. Nothing here has a worker: it would claim what these tests claim."""

from __future__ import annotations

from models.jobs import completion, queue
from models.jobs.queue import RowAnswer
from tests.jobs.jobs import Jobber


async def test_a_job_never_costs_more_than_was_held_for_it(jobber: Jobber) -> None:
    job_id = await jobber.accept(["a.example", "b.example"], type="domain", price=1)
    async with jobber.database.connection() as connection:
        await queue.claim(connection, 32)
    async with jobber.database.transaction() as connection:
        await queue.record(connection, [RowAnswer(job_id, n, 1, data="{}", credits=2) for n in range(2)])
    async with jobber.database.transaction() as connection:
        assert await completion.finish(connection, job_id)
    job = await jobber.job(job_id)
    assert (job.status, job.credits_used, await jobber.balance()) == ("completed", 2, (998, 0, 2))
