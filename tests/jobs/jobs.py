"""What the tests of bulk jobs do: jobs of addresses, and what became of their rows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from database import Database
from models.audit import Actor
from models.credits import credits
from models.identifiers import new_id
from models.jobs import acceptance, completion, jobs
from models.jobs.acceptance import NewJob, RowInput
from models.jobs.jobs import CHANGED_CHANNEL, JobType, JobView
from notifications import Notifier
from services.jobs import price_of
from tests.automations.engine import until


async def in_batches(rows: Sequence[RowInput], size: int = 1000) -> AsyncIterator[Sequence[RowInput]]:
    """Rows as an upload gives them."""
    for first in range(0, len(rows), size):
        yield rows[first : first + size]


def given(targets: Sequence[str | None]) -> list[RowInput]:
    """Rows of one column; None is a cell that is no target."""
    return [
        RowInput(["?"], None, ("invalid_ip", "This is no address."))
        if target is None
        else RowInput([target], target, None)
        for target in targets
    ]


@dataclass
class Jobber:
    """What tests do with the jobs of an account."""

    database: Database
    account_id: UUID
    key_id: UUID | None = None

    @property
    def actor(self) -> Actor:
        kind = "system" if self.key_id is None else "key"
        return Actor(self.account_id, kind, self.key_id, name="test")

    async def accept(
        self,
        targets: Sequence[str | None],
        notifier: Notifier | None = None,
        *,
        type: JobType = "ip",
        fields: Sequence[str] | None = None,
        job_id: UUID | None = None,
        price: int | None = None,
    ) -> UUID:
        """A new job; its id."""
        chosen = job_id or new_id()
        new = NewJob(type, "rows", fields, ["ip"], price_of(type) if price is None else price)
        async with self.database.transaction() as connection:
            await acceptance.accept(connection, self.actor, chosen, new, in_batches(given(targets)))
        if notifier is not None:
            notifier.notify(CHANGED_CHANNEL)
        return chosen

    async def job(self, job_id: UUID) -> JobView:
        """A job as it is now."""
        async with self.database.connection() as connection:
            return await jobs.get(connection, self.account_id, job_id)

    async def ended(self, job_id: UUID, seconds: float = 30) -> JobView:
        """A job, once it has ended."""

        async def look() -> JobView | None:
            job = await self.job(job_id)
            return job if job.completed_at else None

        return await until(look, seconds)

    async def processed(self, job_id: UUID, count: int, seconds: float = 30) -> JobView:
        """A job, once so many rows are done."""

        async def look() -> JobView | None:
            job = await self.job(job_id)
            return job if job.processed_rows >= count else None

        return await until(look, seconds)

    async def cancel(self, job_id: UUID) -> None:
        async with self.database.transaction() as connection:
            await completion.cancel(connection, self.actor, job_id)

    async def delete(self, job_id: UUID) -> None:
        async with self.database.transaction() as connection:
            await completion.delete(connection, self.actor, job_id)

    async def rows(self, statement: Any, *values: Any) -> list[dict[str, Any]]:
        async with self.database.connection() as connection:
            return await (await connection.execute(statement, values)).fetchall()

    async def answers(self, job_id: UUID) -> list[dict[str, Any]]:
        """Return what was found, in the order of the different targets."""
        return await self.rows("select * from job_answers where job_id = %s order by query", job_id)

    async def balance(self) -> tuple[int, int, int]:
        """Return what the account has, what is held, and what was used."""
        async with self.database.connection() as connection:
            view = await credits.get_balance(connection, self.account_id)
        return view.balance, view.held, view.used

    async def events(self, job_id: UUID) -> list[dict[str, Any]]:
        """The events of a job."""
        return await self.rows("select * from events where data->>'job_id' = %s", str(job_id))


VALID = [f"+1415555{number}" for number in range(2600, 2610)]


ABUSE = ["threat.abuse_score"]
"""What one source alone fills."""
