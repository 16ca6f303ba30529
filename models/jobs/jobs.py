"""Bulk jobs and their state, shown and listed. A job's row has its progress."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, LiteralString, get_args
from uuid import UUID

from pydantic import Field as Described
from sqlalchemy import JSON, BigInteger, CheckConstraint, Column, DateTime, ForeignKey, Index, Integer, Text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from database import Connection
from models.errors import NotFound
from models.views import View

CHANGED_CHANNEL = "jobs_changed"
"""Notified when jobs wait, or there is room for more."""

PROGRESS_CHANNEL = "jobs_progress"
"""Notified when the job whose id is the payload has changed."""

STILL_SECONDS = 1.0
"""A job waits if its sources make it wait and nothing was recorded for this long.

Otherwise other targets of it are at work.
"""

JobType = Literal[
    "email", "breach", "validate", "phone", "ip", "domain", "company", "username", "websearch", "darkweb"
]
"""The kind of lookup for each row."""

JobStatus = Literal["queued", "running", "completed", "failed", "cancelled"]
_STATUSES = ", ".join(f"'{name}'" for name in get_args(JobStatus))


def _moment() -> Any:
    return Field(sa_column=Column(DateTime(timezone=True)))


def _count(sort: Any = Integer) -> Any:
    return Field(sa_column=Column(sort, nullable=False, server_default="0"))


class Job(SQLModel, table=True):
    """A bulk job.

    Attributes:
        key_id: the API key that started it.
        fields: the dotted fields to return; None for all.
        header: the names of the columns of the input.
        invalid_rows: the number of rows without a valid target.
        left_out: the sources that are not asked, because their terms forbid bulk use.
        queries: the number of distinct targets of the other rows.
        processed_rows: the number of finished rows, of which `failed_rows` have no answer.
        paced_at, paced_rows: an earlier time and the finished rows then, for its pace.
        mark_at, mark_rows: the same a little later.
        progressed_at: the time of the last recorded result.
        resumes_at: the time until which its sources make some of its targets wait.
        started_at: the time when a worker claimed it.
        begun_at: the time when Temporal accepted its workflow.
        probed_at: the last attempt to start its workflow.
        deleted_at: the time from which it is hidden.
    """

    __tablename__ = "jobs"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        CheckConstraint(f"status in ({_STATUSES})", name="ck_jobs_status"),
        Index("ix_jobs_account_id_id", "account_id", "id"),
        Index("ix_jobs_unfinished", "account_id", "id", postgresql_where="completed_at is null"),
        Index("ix_jobs_completed_at", "completed_at", postgresql_where="completed_at is not null"),
        Index("ix_jobs_deleted", "id", postgresql_where="deleted_at is not null"),
        {"postgresql_with": {"fillfactor": 50}},
    )

    id: UUID = Field(primary_key=True)
    account_id: UUID = Field(sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False))
    key_id: UUID | None
    name: str | None = Field(sa_type=Text)
    type: str = Field(sa_type=Text)
    fields: list[str] | None = Field(sa_column=Column(ARRAY(Text)))
    status: str = Field(sa_type=Text)
    header: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    left_out: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False, server_default="{}"))
    total_rows: int
    invalid_rows: int
    queries: int
    credits_held: int = Field(sa_type=BigInteger)
    processed_rows: int = _count()
    failed_rows: int = _count()
    credits_used: int = _count(BigInteger)
    error: Any = Field(sa_column=Column(JSON))
    paced_at: datetime | None = _moment()
    paced_rows: int = _count()
    mark_at: datetime | None = _moment()
    mark_rows: int = _count()
    progressed_at: datetime | None = _moment()
    resumes_at: datetime | None = _moment()
    created_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    started_at: datetime | None = _moment()
    completed_at: datetime | None = _moment()
    begun_at: datetime | None = _moment()
    probed_at: datetime | None = _moment()
    deleted_at: datetime | None = _moment()


class JobView(View):
    """A bulk job as the API shows it."""

    id: UUID = Described(description="The job's id.")
    name: str | None = Described(description="What it is called; null if it has no name.")
    type: JobType = Described(description="The kind of lookup that is done for each row.")
    fields: list[str] | None = Described(description="The fields that were chosen; null for all.")
    left_out: list[str] = Described(
        description="The sources that are not asked for it, because their terms allow a commercial service no"
        " bulk use."
    )
    status: JobStatus = Described(description="Where it stands.")
    total_rows: int = Described(description="How many rows it has.")
    processed_rows: int = Described(description="How many of them are done, so far.")
    succeeded_rows: int = Described(description="How many of those were answered.")
    failed_rows: int = Described(description="How many of those were not: no target, or no answer.")
    credits_used: int = Described(description="What it has cost so far.")
    credits_held: int = Described(description="What is held for it until it ends; 0 after that.")
    eta_seconds: int | None = Described(
        description="How long it will take from now at its pace of the last seconds; null if unknown."
    )
    resumes_at: datetime | None = Described(
        description="Until when it waits for sources that are over their quota; null if it does not."
    )
    error: dict[str, Any] | None = Described(
        description="Why it failed, as `code` and `message`; null if it did not."
    )
    created_at: datetime = Described(description="When it was accepted.")
    started_at: datetime | None = Described(description="When it began; null before.")
    completed_at: datetime | None = Described(description="When it ended; null before.")
    warnings: list[dict[str, str]] | None = Described(
        None, description="What is doubtful about it, if anything; only in the answer that made it."
    )


_SHOWN: LiteralString = (
    "select *, clock_timestamp() as now from jobs where account_id = %(account_id)s and deleted_at is null"
)


async def get(connection: Connection, account_id: UUID, job_id: UUID) -> JobView:
    """Return one job.

    Raises:
        NotFound: the job is unknown, or another account's.
    """
    return view_of(await get_row(connection, account_id, job_id))


async def get_row(connection: Connection, account_id: UUID, job_id: UUID) -> dict[str, Any]:
    """Return the row of a job, with the current time as `now`; it raises as `get` does."""
    cursor = await connection.execute(
        _SHOWN + " and id = %(job_id)s", {"account_id": account_id, "job_id": job_id}
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("job")
    return row


async def list_some(
    connection: Connection, account_id: UUID, *, before: UUID | None, limit: int
) -> tuple[list[JobView], UUID | None]:
    """Return jobs of the account, newest first.

    Args:
        connection: inside or outside a transaction.
        account_id: the owner.
        before: only jobs older than this one.
        limit: the highest number of jobs.

    Returns:
        The jobs, and the id of the last one if there are more.
    """
    older: LiteralString = "" if before is None else " and id < %(before)s"
    cursor = await connection.execute(
        _SHOWN + older + " order by id desc limit %(limit)s",
        {"account_id": account_id, "before": before, "limit": limit + 1},
    )
    rows = await cursor.fetchall()
    last = rows[limit - 1]["id"] if len(rows) > limit else None
    return [view_of(row) for row in rows[:limit]], last


def view_of(row: Mapping[str, Any]) -> JobView:
    """Return the job of a row that has the current time as `now`."""
    shown: dict[str, Any] = {name: row[name] for name in JobView.model_fields if name in row}
    ended = row["completed_at"] is not None
    waits = not ended and row["resumes_at"] is not None and row["resumes_at"] > row["now"]
    waits = waits and row["now"] - row["progressed_at"] > timedelta(seconds=STILL_SECONDS)
    shown["succeeded_rows"] = row["processed_rows"] - row["failed_rows"]
    shown["credits_held"] = 0 if ended else row["credits_held"]
    shown["resumes_at"] = row["resumes_at"] if waits else None
    shown["eta_seconds"] = _eta(row, waits=waits) if row["status"] == "running" else None
    return JobView(**shown)


def _eta(row: Mapping[str, Any], *, waits: bool) -> int | None:
    """Estimate the seconds until the end: the time that it waits, and the rest at its recent pace."""
    since: datetime = row["paced_at"] or row["now"]
    until: datetime = row["now"]
    done, left = row["processed_rows"] - row["paced_rows"], row["total_rows"] - row["processed_rows"]
    waiting = (row["resumes_at"] - until).total_seconds() if waits else 0.0
    if not left or done <= 0:
        return 0 if not left else math.ceil(waiting) or None
    return math.ceil(waiting + left * max(0.0, (until - since).total_seconds()) / done)
