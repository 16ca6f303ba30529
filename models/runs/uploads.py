"""Uploads: files that were sent to workflows and became runs; the API calls them batches.

A run has the id of its upload. While some runs are unfinished, the others are counted among the runs between
the upload's first and last id: they were accepted together, so there are hardly others between them. When all
have ended, the first reader stores the counts.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, LiteralString
from uuid import UUID

from pydantic import Field as Described
from sqlalchemy import Column, DateTime, ForeignKey, Index
from sqlmodel import Field, SQLModel

from database import Connection
from models import audit
from models.audit import Actor
from models.automations import run_targets
from models.automations.run_targets import RunTarget
from models.errors import NotFound
from models.runs import acceptance
from models.runs.acceptance import RunRequest
from models.runs.run_bounds import UnfinishedRuns
from models.views import View

UploadStatus = Literal["queued", "running", "completed", "failed", "cancelled"]


class Upload(SQLModel, table=True):
    """A file that was sent to a workflow.

    Attributes:
        first_run_id, last_run_id: the smallest and the greatest id of its runs.
        runs_completed, runs_failed, runs_cancelled: the numbers of its runs by final status; null until they
        are stored.
        cancelled_at: when its unfinished runs were cancelled on request.
        completed_at: when the last of its runs ended; null until the counts are stored.
    """

    __tablename__ = "uploads"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        Index("ix_uploads_account_id", "account_id"),
        Index("ix_uploads_completed_at", "completed_at"),
    )

    id: UUID = Field(primary_key=True)
    account_id: UUID = Field(sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False))
    automation_id: UUID
    first_run_id: UUID
    last_run_id: UUID
    runs_total: int
    runs_completed: int | None
    runs_failed: int | None
    runs_cancelled: int | None
    created_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    cancelled_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    completed_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))


class UploadView(View):
    """A batch as the API shows it."""

    id: UUID = Described(description="The batch's id.")
    workflow_id: UUID = Described(description="The workflow that the file was sent to.")
    status: UploadStatus = Described(description="Where it stands.")
    runs_total: int = Described(description="How many runs the file became.")
    runs_completed: int = Described(description="How many of them have completed.")
    runs_failed: int = Described(description="How many have failed.")
    runs_cancelled: int = Described(description="How many were cancelled.")
    created_at: datetime = Described(description="When it was accepted.")
    completed_at: datetime | None = Described(description="When the last of its runs ended; null before.")


async def accept(
    connection: Connection,
    actor: Actor,
    upload_id: UUID,
    target: RunTarget,
    batches: AsyncIterable[Sequence[Any]],
    unfinished: UnfinishedRuns,
) -> None:
    """Accept a run for each input; call it in a transaction. Notify `runs.QUEUED_CHANNEL` after the commit.

    Args:
        connection: inside a transaction.
        actor: the owner of the workflow, and the one who sends the file.
        upload_id: the id for it. If this upload exists, the call is a repeat and changes nothing.
        target: the workflow, from `run_targets.event_target`.
        batches: at least one input, some at a time. An error in reading undoes everything.
        unfinished: the bound on runs that have not ended.

    Raises:
        NotFound, Conflict: the workflow was deleted or paused meanwhile.
        TooManyRuns: the account has no room for so many runs.
    """
    cursor = await connection.execute("select from uploads where id = %s", (upload_id,))
    if await cursor.fetchone() is not None:
        return
    await run_targets.event_target(connection, target.account_id, target.automation_id)
    run_ids: list[UUID] = []
    async for batch in batches:
        events = [RunRequest(target, "file_upload", payload, upload_id=upload_id) for payload in batch]
        await unfinished.check(connection, target.account_id, len(events))
        await acceptance.accept(connection, events)
        run_ids += [event.run_id for event in events]
    cursor = await connection.execute(
        "insert into uploads (id, account_id, automation_id, first_run_id, last_run_id, runs_total,"
        " created_at) values (%s, %s, %s, %s, %s, %s, clock_timestamp())",
        (upload_id, target.account_id, target.automation_id, min(run_ids), max(run_ids), len(run_ids)),
    )
    of = audit.Target("workflow", target.automation_id)
    changes = {"batch_id": str(upload_id), "runs_total": len(run_ids)}
    await audit.record(connection, actor, "batch.created", of, changes)


# ---- progress

_WORK_OF: LiteralString = "run_work w where w.upload_id = u.id"
_RUNS_OF: LiteralString = (
    "runs r where r.account_id = u.account_id and r.id between u.first_run_id and u.last_run_id"
    " and r.upload_id = u.id"
)
# In one statement, so that a run that ends meanwhile counts once. Most runs complete: their number is the
# remainder.
_SHOWN: LiteralString = f"""
select u.*, w.unfinished, w.begun, r.failed, r.cancelled from uploads u
left join lateral (
  select count(*)::int as unfinished, bool_or(w.begun) as begun from {_WORK_OF}
) w on u.completed_at is null
left join lateral (
  select count(*) filter (where r.status = 'failed')::int as failed,
    count(*) filter (where r.status = 'cancelled')::int as cancelled
  from {_RUNS_OF} and r.status in ('failed', 'cancelled')
) r on u.completed_at is null
where u.account_id = %(account_id)s and u.id = %(id)s
"""
# Deleted runs no longer have the time of their end.
_KEEP_COUNTS: LiteralString = f"""
update uploads kept set runs_failed = e.failed, runs_cancelled = e.cancelled,
  runs_completed = u.runs_total - e.failed - e.cancelled, completed_at = coalesce(e.completed_at, now())
from uploads u cross join lateral (
  select count(*) filter (where r.status = 'failed')::int as failed,
    count(*) filter (where r.status = 'cancelled')::int as cancelled, max(r.completed_at) as completed_at
  from {_RUNS_OF}
) e
where kept.id = u.id and kept.completed_at is null and u.completed_at is null
  and not exists (select from {_WORK_OF})
"""


async def get(connection: Connection, account_id: UUID, upload_id: UUID) -> UploadView:
    """Return an upload with its progress.

    Args:
        connection: outside a transaction.
        account_id: the owner.
        upload_id: the upload.

    Raises:
        NotFound: the upload is unknown, or another account's.
    """
    row = await _row(connection, account_id, upload_id)
    if row["completed_at"] is None and row["unfinished"] == 0:
        await connection.execute(_KEEP_COUNTS + " and u.id = %s", (upload_id,))
        row = await _row(connection, account_id, upload_id)
    return _view(row)


async def _row(connection: Connection, account_id: UUID, upload_id: UUID) -> dict[str, Any]:
    cursor = await connection.execute(_SHOWN, {"account_id": account_id, "id": upload_id})
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("batch")
    return row


def _view(row: Mapping[str, Any]) -> UploadView:
    counts = {name: row[name] for name in ("runs_completed", "runs_failed", "runs_cancelled")}
    if row["completed_at"] is None:
        completed = row["runs_total"] - row["unfinished"] - row["failed"] - row["cancelled"]
        counts = dict(zip(counts, (completed, row["failed"], row["cancelled"]), strict=True))
    return UploadView(
        workflow_id=row["automation_id"],
        status=_status(row, **counts),
        **counts,
        **{name: row[name] for name in ("id", "runs_total", "created_at", "completed_at")},
    )


def _status(
    row: Mapping[str, Any], runs_completed: int, runs_failed: int, runs_cancelled: int
) -> UploadStatus:
    if row["completed_at"] is None:
        return "running" if row["begun"] or row["unfinished"] < row["runs_total"] else "queued"
    if runs_cancelled and (row["cancelled_at"] is not None or not runs_completed + runs_failed):
        return "cancelled"
    return "completed" if runs_completed else "failed"


# ---- the end


async def note_cancel(connection: Connection, actor: Actor, upload_id: UUID) -> UUID:
    """Record that an unfinished upload is to be cancelled; call it in a transaction, then `cancel_some`.

    Returns:
        The id of its workflow.

    Raises:
        NotFound: the upload is unknown, or another account's.
    """
    row = await _row(connection, actor.account_id, upload_id)
    if row["completed_at"] is None and row["unfinished"]:
        cursor = await connection.execute(
            "update uploads set cancelled_at = now() where id = %s and cancelled_at is null", (upload_id,)
        )
        if cursor.rowcount:
            of = audit.Target("workflow", row["automation_id"])
            await audit.record(connection, actor, "batch.cancelled", of, {"batch_id": str(upload_id)})
    return row["automation_id"]


async def expire(connection: Connection, kept: timedelta) -> None:
    """Store the counts of uploads whose runs have ended, and delete uploads whose runs were deleted.

    Args:
        connection: outside a transaction.
        kept: the time for which runs are kept after their end.
    """
    cursor = await connection.execute("select id from uploads where completed_at is null")
    for row in await cursor.fetchall():
        await connection.execute(_KEEP_COUNTS + " and u.id = %s", (row["id"],))
    await connection.execute("delete from uploads where completed_at < now() - %s", (kept,))
