"""Bulk jobs: shown, listed, cancelled, deleted. A job's row says where it stands."""

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
"""Jobs wait, or there is room for more."""

PROGRESS_CHANNEL = "jobs_progress"
"""Something has become of the job whose id is the payload."""

STILL_SECONDS = 1.0
"""A job waits when its sources have it wait, and nothing was recorded for so long: else others of its targets
are at work."""

JobType = Literal[
    "email", "breach", "validate", "phone", "ip", "domain", "company", "username", "websearch", "darkweb"
]
"""The kind of lookup that is done for each row."""

JobStatus = Literal["queued", "running", "completed", "failed", "cancelled"]
_STATUSES = ", ".join(f"'{name}'" for name in get_args(JobStatus))


def _moment() -> Any:
    return Field(sa_column=Column(DateTime(timezone=True)))


def _count(sort: Any = Integer) -> Any:
    return Field(sa_column=Column(sort, nullable=False, server_default="0"))


class Job(SQLModel, table=True):
    """A job.

    Attributes:
        key_id: the API key that started it.
        fields: the only dotted fields that are wanted; None for all.
        header: the names of the columns of what was given.
        invalid_rows: those whose cell is no target.
        left_out: the sources that are not asked, because their terms forbid bulk use.
        queries: how many different targets the others have.
        processed_rows: those that are done, of which `failed_rows` have no answer.
        paced_at, paced_rows: where it stood some time ago, for its pace.
        mark_at, mark_rows: where it stood a little later.
        progressed_at: when something was recorded last.
        resumes_at: until when its sources have some of its targets wait.
        started_at: when a worker claimed it.
        begun_at: when Temporal had accepted its workflow.
        probed_at: when that was last tried.
        deleted_at: since when nobody sees it.
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
    """One job.

    Raises:
        NotFound: unknown, or another account's.
    """
    return view_of(await get_row(connection, account_id, job_id))


async def get_row(connection: Connection, account_id: UUID, job_id: UUID) -> dict[str, Any]:
    """The row of a job, with the present moment as `now`; raises as `get`."""
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
    """Jobs of the account, newest first.

    Args:
        connection: any.
        account_id: whose.
        before: only jobs older than this one.
        limit: how many to give at most.

    Returns:
        The jobs, and the last of them if there are more.
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
    """The job that a row, with the present moment as `now`, shows."""
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
    """How many seconds the rest takes at the pace of the last ones, after the time that it waits."""
    since: datetime = row["paced_at"] or row["now"]
    until: datetime = row["now"]
    done, left = row["processed_rows"] - row["paced_rows"], row["total_rows"] - row["processed_rows"]
    waiting = (row["resumes_at"] - until).total_seconds() if waits else 0.0
    if not left or done <= 0:
        return 0 if not left else math.ceil(waiting) or None
    return math.ceil(waiting + left * max(0.0, (until - since).total_seconds()) / done)
