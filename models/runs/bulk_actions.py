"""Bulk actions: retries or cancellations of many runs, carried out in the background.

An action has the ids of its runs, and how many of them were taken. Workers take a share at a time, in one
transaction with what they do to its runs. So a worker that dies has done nothing, and no run is taken twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, LiteralString
from uuid import UUID

import orjson
from psycopg.types.json import Json
from pydantic import Field as Described
from pydantic import TypeAdapter
from sqlalchemy import JSON, Column, DateTime, ForeignKey, Index, Text, Uuid
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from database import Connection
from models.audit import Actor
from models.errors import Conflict, NotFound
from models.runs.confirmations import Action, RetriedVersion, Wish
from models.views import View

STARTED_CHANNEL = "vedette_bulk_action"
"""Notified when an action was accepted."""
MOST_UNFINISHED = 10
"""The most unfinished actions of an account."""
_SHARE = 50
_MOST_ERRORS = 10
_PAUSE_SECONDS = 2.0
_ACTOR = TypeAdapter(Actor)

BulkActionStatus = Literal["queued", "running", "completed", "cancelled"]


def _moment(*, nullable: bool = False) -> Column[datetime]:
    return Column(DateTime(timezone=True), nullable=nullable)


class BulkAction(SQLModel, table=True):
    """An action on many runs.

    Attributes:
        filter: as it was sent.
        actor: who asked for it.
        may_look_up: whether its credential may do lookups.
        taken: how many of `run_ids`, from the first on, were taken.
        skipped: by code, how many runs were refused.
        errors: the first runs that were refused or failed.
        due_at: when the next share is due.
    """

    __tablename__ = "bulk_actions"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        Index("ix_bulk_actions_unfinished", "account_id", "id", postgresql_where="completed_at is null"),
    )

    account_id: UUID = Field(
        sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True, nullable=False)
    )
    id: UUID = Field(primary_key=True)
    action: str = Field(sa_type=Text)
    version: str = Field(sa_type=Text)
    filter: Any = Field(sa_column=Column(JSON, nullable=False))
    actor: Any = Field(sa_column=Column(JSON, nullable=False))
    may_look_up: bool
    run_ids: list[UUID] = Field(sa_column=Column(ARRAY(Uuid), nullable=False))
    taken: int
    done: int
    failed: int
    skipped: Any = Field(sa_column=Column(JSON, nullable=False))
    errors: Any = Field(sa_column=Column(JSON, nullable=False))
    due_at: datetime = Field(sa_column=_moment())
    created_at: datetime = Field(sa_column=_moment())
    cancelled_at: datetime | None = Field(sa_column=_moment(nullable=True))
    completed_at: datetime | None = Field(sa_column=_moment(nullable=True))


class RunError(View):
    """A run that an action could not change."""

    run_id: UUID = Described(description="The run.")
    code: str = Described(description="Why it was refused, or `internal_error`.")
    message: str = Described(description="The same in words.")


class BulkActionView(View):
    """A bulk action as the API shows it."""

    id: UUID = Described(description="The action's id.")
    action: Action = Described(description="What is done to the runs.")
    version: RetriedVersion = Described(
        description="The workflow's version of a retry: that of the run, or the current one."
    )
    filter: dict[str, Any] = Described(description="The filter, as it was sent.")
    status: BulkActionStatus = Described(description="Where it stands.")
    total: int = Described(description="How many runs it takes.")
    done: int = Described(description="How many of them were retried or cancelled, so far.")
    skipped: dict[str, int] = Described(description="By code, how many were left as they are, and why.")
    failed: int = Described(description="How many could not be changed for a fault of ours.")
    errors: list[RunError] = Described(description="The first ten runs that were skipped or failed.")
    created_at: datetime = Described(description="When it was accepted.")
    completed_at: datetime | None = Described(description="When it ended; null before.")


async def accept(
    connection: Connection,
    actor: Actor,
    action_id: UUID,
    wish: Wish,
    run_ids: Sequence[UUID],
    may_look_up: bool,
) -> None:
    """Accept an action, unless it was accepted before. Notify `STARTED_CHANNEL` after the commit.

    Raises:
        Conflict: too many actions of the account have not ended (`too_many_bulk_actions`).
    """
    lock = f"bulk actions {actor.account_id}"
    await connection.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (lock,))
    cursor = await connection.execute(
        "select count(*)::int as unfinished, coalesce(bool_or(id = %(id)s), false) as known from bulk_actions"
        " where account_id = %(account_id)s and (completed_at is null or id = %(id)s)",
        {"account_id": actor.account_id, "id": action_id},
    )
    row = await cursor.fetchone()
    if row and row["known"]:
        return
    if row and row["unfinished"] >= MOST_UNFINISHED:
        message = f"{MOST_UNFINISHED} bulk actions wait or run: wait for the end of one, or cancel one."
        raise Conflict("too_many_bulk_actions", message, limit=MOST_UNFINISHED)
    await connection.execute(
        "insert into bulk_actions (account_id, id, action, version, filter, actor, may_look_up, run_ids,"
        " taken, done, failed, skipped, errors, due_at, created_at, completed_at)"
        " values (%s, %s, %s, %s, %s, %s, %s, %s, 0, 0, 0, '{}', '[]', clock_timestamp(), clock_timestamp(),"
        " case when %s then clock_timestamp() end)",
        (
            actor.account_id, action_id, wish.action, wish.version, Json(wish.filter),
            orjson.dumps(actor).decode(), may_look_up, list(run_ids), not run_ids,
        ),
    )  # fmt: skip


async def exists(connection: Connection, account_id: UUID, action_id: UUID) -> bool:
    """Return whether an action was accepted."""
    cursor = await connection.execute(
        "select from bulk_actions where account_id = %s and id = %s", (account_id, action_id)
    )
    return await cursor.fetchone() is not None


_SHOWN: LiteralString = """
select id, action, version, filter, cardinality(run_ids) as total, done, skipped, failed, errors, created_at,
  completed_at, case when cancelled_at is not null then 'cancelled' when completed_at is not null
    then 'completed' when taken > 0 then 'running' else 'queued' end as status
from bulk_actions where account_id = %s and id = %s
"""


async def get(connection: Connection, account_id: UUID, action_id: UUID) -> BulkActionView:
    """Return one action.

    Raises:
        NotFound: the action is unknown, or another account's.
    """
    row = await (await connection.execute(_SHOWN, (account_id, action_id))).fetchone()
    if row is None:
        raise NotFound("bulk action")
    return BulkActionView(**row)


async def cancel(connection: Connection, account_id: UUID, action_id: UUID) -> None:
    """End an action now. What it has done stays; one that has ended stays as it is."""
    await connection.execute(
        "update bulk_actions set cancelled_at = clock_timestamp(), completed_at = clock_timestamp()"
        " where account_id = %s and id = %s and completed_at is null",
        (account_id, action_id),
    )


async def expire(connection: Connection, kept: timedelta) -> None:
    """Delete the actions that have ended longer ago than runs are kept."""
    await connection.execute("delete from bulk_actions where completed_at < now() - %s", (kept,))


@dataclass(slots=True)
class Share:
    """Some runs of an action, and what became of them.

    Attributes:
        run_ids: the runs to take now.
        taken: how many of them were taken; the others wait.
        refused: the runs that were not changed by a rule.
        faults: the runs that were not changed for a fault of ours.
    """

    account_id: UUID
    action_id: UUID
    action: Action
    version: RetriedVersion
    actor: Actor
    may_look_up: bool
    run_ids: list[UUID]
    taken: int = 0
    done: int = 0
    refused: list[RunError] = field(default_factory=list[RunError])
    faults: list[RunError] = field(default_factory=list[RunError])


# The action that has waited longest is next: so accounts take turns.
_TAKE: LiteralString = """
select account_id, id, action, version, actor, may_look_up, run_ids[taken + 1:taken + %s] as run_ids
from bulk_actions where completed_at is null and due_at <= clock_timestamp()
order by due_at limit 1 for update skip locked
"""


async def take(connection: Connection) -> Share | None:
    """Take the next share of an action, until the transaction ends; None if none is due."""
    row = await (await connection.execute(_TAKE, (_SHARE,))).fetchone()
    if row is None:
        return None
    actor = _ACTOR.validate_python(row["actor"])
    return Share(
        row["account_id"], row["id"], row["action"], row["version"], actor, row["may_look_up"], row["run_ids"]
    )


async def find_workflows(connection: Connection, run_ids: Sequence[UUID]) -> dict[UUID, tuple[UUID, int]]:
    """Return the workflow of each run, and its current version."""
    cursor = await connection.execute(
        "select r.id, a.id as automation_id, a.version from runs r"
        " join automations a on a.id = r.automation_id where r.id = any(%s)",
        (list(run_ids),),
    )
    return {row["id"]: (row["automation_id"], row["version"]) for row in await cursor.fetchall()}


_RECORD: LiteralString = """
update bulk_actions set taken = taken + %(taken)s, done = done + %(done)s, failed = failed + %(failed)s,
  skipped = %(skipped)s, errors = %(errors)s,
  due_at = clock_timestamp() + make_interval(secs => %(pause)s),
  completed_at = case when taken + %(taken)s >= cardinality(run_ids) then clock_timestamp() end
where account_id = %(account_id)s and id = %(id)s
"""


async def record(connection: Connection, share: Share) -> None:
    """Record what became of a share, in the transaction that has taken it and changed its runs.

    If some of its runs had to wait, the next share is due a little later.
    """
    wanted = (share.account_id, share.action_id)
    cursor = await connection.execute(
        "select skipped, errors from bulk_actions where account_id = %s and id = %s", wanted
    )
    row = await cursor.fetchone()
    before: dict[str, Any] = row or {"skipped": {}, "errors": []}
    skipped = Counter[str](before["skipped"]) + Counter(error.code for error in share.refused)
    told = [error.model_dump(mode="json") for error in (*share.refused, *share.faults)]
    values = {
        "account_id": share.account_id, "id": share.action_id, "taken": share.taken, "done": share.done,
        "failed": len(share.faults), "skipped": Json(skipped),
        "errors": Json([*before["errors"], *told][:_MOST_ERRORS]),
        "pause": _PAUSE_SECONDS if share.taken < len(share.run_ids) else 0.0,
    }  # fmt: skip
    await connection.execute(_RECORD, values)
