"""The acceptance of a job: its rows are streamed in and its credits held, in one transaction."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from sqlalchemy import JSON, Column, Text
from sqlalchemy.dialects.postgresql import ARRAY, INTEGER
from sqlmodel import Field, SQLModel

from database import Connection
from models import audit
from models.audit import Actor, Target
from models.credits import credits
from models.credits.credits import Booking
from models.errors import Conflict
from models.jobs.jobs import JobType
from models.names import folded_name

MOST_UNFINISHED = 100
"""The highest number of unfinished jobs of an account."""

CHUNK = 200
"""The number of targets of a job that are looked up together."""


class JobRow(SQLModel, table=True):
    """A row as the client sent it.

    Attributes:
        position: from 0.
        cells: one text for each column of the job's header.
        query: the number of its target among the job's distinct targets; None if the target is invalid.
        error: why the target is invalid.
    """

    __tablename__ = "job_rows"  # pyright: ignore[reportAssignmentType]

    job_id: UUID = Field(primary_key=True)
    position: int = Field(primary_key=True)
    cells: Any = Field(sa_column=Column(JSON, nullable=False))
    query: int | None
    error: Any = Field(sa_column=Column(JSON))


class JobChunk(SQLModel, table=True):
    """Targets of a job that are still to be looked up, each with the number of its rows."""

    __tablename__ = "job_chunks"  # pyright: ignore[reportAssignmentType]

    job_id: UUID = Field(primary_key=True)
    number: int = Field(primary_key=True)
    targets: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    row_counts: list[int] = Field(sa_column=Column(ARRAY(INTEGER), nullable=False))


class RowInput(NamedTuple):
    """A row to accept: its cells, and its normalised target or the reason why it has none (code, message)."""

    cells: Sequence[str]
    target: str | None
    error: tuple[str, str] | None


@dataclass(frozen=True)
class NewJob:
    """A job to accept.

    Attributes:
        type: the kind of lookup.
        name: a name for people.
        fields: the dotted fields to return; None for all.
        header: the names of the columns.
        price: the most credits that a lookup can cost.
        left_out: the sources that are not asked, because their terms forbid bulk use.
    """

    type: JobType
    name: str | None
    fields: Sequence[str] | None
    header: Sequence[str]
    price: int
    left_out: Sequence[str] = ()


# The targets of these types are names, stored as they are written; see `services.targets`.
_NAMED = ("company", "darkweb")


@dataclass
class _Targets:
    """The distinct targets so far, in the order of the first row of each, with the number of rows of each.

    `fold` returns the same text for all spellings of a target.
    """

    fold: Callable[[str], str]
    texts: list[str] = field(default_factory=list[str])
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    row_counts: list[int] = field(default_factory=list[int])

    def number_of(self, target: str) -> int:
        number = self.numbers.setdefault(self.fold(target), len(self.numbers))
        if number == len(self.row_counts):
            self.texts.append(target)
            self.row_counts.append(0)
        self.row_counts[number] += 1
        return number


async def accept(
    connection: Connection,
    actor: Actor,
    job_id: UUID,
    new: NewJob,
    batches: AsyncIterable[Sequence[RowInput]],
) -> None:
    """Accept a job; call it in a transaction. Notify `jobs.CHANGED_CHANNEL` after the commit.

    The highest possible cost of looking up each distinct target is held.

    Args:
        connection: inside a transaction.
        actor: the owner of the job, and the one who starts it.
        job_id: the id for it. If this job exists, the call is a repeat and changes nothing.
        new: the job.
        batches: its rows, as they are read. An error in reading undoes everything.

    Raises:
        Conflict: too many jobs of the account have not ended (`too_many_jobs`).
        InsufficientCredits: the balance does not cover it.
    """
    if await _job_exists(connection, job_id):
        return
    await _check_room(connection, actor.account_id)
    targets, total, invalid = _Targets(folded_name if new.type in _NAMED else str), 0, 0
    copying = "copy job_rows (job_id, position, cells, query, error) from stdin"
    async with connection.cursor() as cursor, cursor.copy(copying) as copy:
        async for batch in batches:
            for row in batch:
                query = None if row.target is None else targets.number_of(row.target)
                error = (
                    None
                    if row.error is None
                    else _json(dict(zip(("code", "message"), row.error, strict=True)))
                )
                await copy.write_row((job_id, total, _json(row.cells), query, error))
                total += 1
                invalid += query is None
    await _insert_chunks(connection, job_id, targets)
    held = new.price * len(targets.numbers)
    await connection.execute(
        "insert into jobs (id, account_id, key_id, name, type, fields, status, header, total_rows,"
        " invalid_rows, queries, credits_held, left_out, created_at)"
        " values (%s, %s, %s, %s, %s, %s, 'queued', %s, %s, %s, %s, %s, %s, clock_timestamp())",
        (
            job_id, actor.account_id, actor.id if actor.kind == "key" else None, new.name, new.type,
            None if new.fields is None else list(new.fields), list(new.header), total, invalid,
            len(targets.numbers), held, list(new.left_out),
        ),
    )  # fmt: skip
    if held:
        await credits.hold(
            connection,
            Booking(actor.account_id, held, hold_reference(job_id), f"Bulk job {new.name or job_id}"),
        )
    changes = {"type": {"old": None, "new": new.type}, "total_rows": {"old": None, "new": total}}
    await audit.record(connection, actor, "job.created", Target("job", job_id, new.name), changes)


def hold_reference(job_id: UUID) -> str:
    """Return the reference under which the credits of a job are held and settled."""
    return f"bulk-job/{job_id}"


async def _job_exists(connection: Connection, job_id: UUID) -> bool:
    cursor = await connection.execute("select from jobs where id = %s", (job_id,))
    return await cursor.fetchone() is not None


async def _check_room(connection: Connection, account_id: UUID) -> None:
    cursor = await connection.execute(
        "select count(*) as n from jobs where account_id = %s and completed_at is null", (account_id,)
    )
    row = await cursor.fetchone()
    if row and row["n"] >= MOST_UNFINISHED:
        message = f"{MOST_UNFINISHED} jobs wait or run: wait for the end of one, or cancel one."
        raise Conflict("too_many_jobs", message, limit=MOST_UNFINISHED)


async def _insert_chunks(connection: Connection, job_id: UUID, targets: _Targets) -> None:
    texts = targets.texts
    async with connection.cursor() as cursor:
        await cursor.executemany(
            "insert into job_chunks (job_id, number, targets, row_counts) values (%s, %s, %s, %s)",
            [
                (
                    job_id,
                    first // CHUNK,
                    texts[first : first + CHUNK],
                    targets.row_counts[first : first + CHUNK],
                )
                for first in range(0, len(texts), CHUNK)
            ],
        )


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
