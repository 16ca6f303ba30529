"""The acceptance of events: each becomes one run, even if it is sent several times."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from uuid import UUID

import orjson
from psycopg import AsyncCursor
from psycopg.rows import DictRow
from psycopg.types.json import Json
from pydantic import BaseModel
from sqlalchemy import Column, Index, Text
from sqlmodel import Field, SQLModel

import metrics
import tracing
from database import Connection
from language.search import find_values
from models import audit
from models.audit import Actor
from models.automations.run_targets import RunTarget
from models.identifiers import new_id
from models.priorities import WAITED
from models.runs import search_values
from models.runs.run_views import RunStatus, TriggerType
from models.runs.runs import QUEUED_CHANNEL
from pipelined import pipelined_transaction

MAX_DEDUPE_LENGTH = 255


class RunDedupeKey(SQLModel, table=True):
    """The run that was accepted with a key. A key is unique in its workflow, until its week is dropped."""

    __tablename__ = "run_dedupe_keys"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (Index("ix_run_dedupe_keys_run_id", "run_id"),)

    automation_id: UUID = Field(primary_key=True)
    dedupe_key: str = Field(sa_column=Column(Text, primary_key=True))
    run_id: UUID


class RunAccepted(BaseModel, frozen=True):
    """The answer to accepted work."""

    run_id: UUID = Field(description="The run's id.")
    status: RunStatus = Field(description="Where it stands: `queued` if it is new, and waits for its turn.")
    message: str = Field(description="The same for people.")


class RunAcceptance(BaseModel, frozen=True):
    """An accepted run.

    Attributes:
        repeated: whether the same event was accepted before.
        status: the status of a new run; cancelled if its workflow is at its limit and skips events.
    """

    run_id: UUID
    repeated: bool
    status: RunStatus = "queued"


@dataclass(frozen=True)
class RunRequest:
    """A request for a run.

    Attributes:
        target: the workflow, from `models.automations.run_targets`.
        trigger: the type of trigger that started it.
        payload: the `trigger` of the run's expressions; any JSON value.
        request: headers and query of the triggering request; stored if the definition reads them.
        dedupe_key: a second event with the same key is the same run.
        parent_run_id: the run whose step this run is; the end of this run wakes it.
        root_run_id: the first run above it, if this run is the step of another.
        depth: the number of runs above it.
        upload_id: the upload that contains it as a row.
        run_id: the id of the run. Accepting the same object again changes nothing.
        is_waited_for: whether a client waits for its answer.
        actor: the person or program that starts the run by hand: the audit log names it.
        origin: the request, or the run, that starts it.
    """

    target: RunTarget
    trigger: TriggerType
    payload: Any
    request: Mapping[str, Any] | None = None
    dedupe_key: str | None = None
    parent_run_id: UUID | None = None
    root_run_id: UUID | None = None
    depth: int | None = None
    upload_id: UUID | None = None
    run_id: UUID = field(default_factory=new_id)
    actor: Actor | None = None
    is_waited_for: bool = False
    origin: tracing.Origin = field(default_factory=tracing.get_origin)

    @cached_property
    def written_payload(self) -> bytes:
        """The payload as JSON."""
        return orjson.dumps(self.payload)

    @cached_property
    def written_request(self) -> bytes | None:
        """The request as JSON, if it is stored."""
        return orjson.dumps(self.request) if self.request and self.target.reads_request else None

    @cached_property
    def search_values(self) -> list[str]:
        """The values of the payload by which the run is found."""
        return find_values(self.target.spec.search, self.payload)

    @property
    def size(self) -> int:
        """The size of the stored payload and request, in bytes."""
        return len(self.written_payload) + len(self.written_request or b"")


class StaleTarget(Exception):
    """The workflow has changed since it was read, or has another ingest token: read it again."""


# Keys are inserted in order, so that two processes with the same keys cannot deadlock. The JSON is sent as
# binary: as text, every quote in it would be escaped in Python.
_ACCEPT = """
with events as (
  select *, token_hash is null or exists (
    select from automations a where a.id = automation_id and a.ingest_token_hash = token_hash
      and a.version = n.version and a.status = 'active' and a.deleted_at is null) as is_current
  from unnest(%s::uuid[], %s::uuid[], %s::uuid[], %s::int[], %s::smallint[], %s::uuid[],
                       %s::boolean[], %s::text[], %b::json[], %b::json[], %s::int[], %s::text[], %s::uuid[],
                       %s::smallint[], %s::uuid[], %s::uuid[], %s::bytea[], %s::text[], %s::text[])
  as n (id, account_id, automation_id, version, priority, gate, own, trigger, input, request, input_bytes,
        dedupe_key, parent_run_id, depth, upload_id, root_run_id, token_hash, traceparent, request_id)
), keys as (
  insert into run_dedupe_keys (automation_id, dedupe_key, run_id)
  select automation_id, dedupe_key, id from events where dedupe_key is not null and is_current
  order by automation_id, dedupe_key
  on conflict do nothing returning run_id
), accepted as (
  insert into runs (id, account_id, automation_id, version, trigger, input, request, input_bytes, queued_at,
                    parent_run_id, depth, upload_id, traceparent, request_id)
  select id, account_id, automation_id, version, trigger, input, request, input_bytes, now(),
    parent_run_id, depth, upload_id, traceparent, request_id
  from events where is_current and (dedupe_key is null or id in (select run_id from keys))
  on conflict do nothing returning id
), work as (
  insert into run_work (run_id, account_id, automation_id, version, priority, gate, own, status, begun,
                        available_at, bytes, parent_run_id, upload_id, root_run_id)
  select id, account_id, automation_id, version, priority, gate, own, 'queued', false, clock_timestamp(),
    input_bytes, parent_run_id, upload_id, root_run_id
  from events join accepted using (id) where id <> all(%s::uuid[])
)
select id, true as is_current from accepted
union all
select id, false from events where not is_current
"""


async def accept(connection: Connection, events: Sequence[RunRequest]) -> list[RunAcceptance]:
    """Accept runs: once this has committed, they will be executed. Answer clients only after that.

    If a workflow is at its limit and skips further events, their runs are cancelled at once.
    """
    accepted = await _accept_each(connection, events)
    if stale := [answer for answer in accepted if isinstance(answer, StaleTarget)]:
        raise stale[0]
    return [answer for answer in accepted if isinstance(answer, RunAcceptance)]


async def accept_and_announce(
    connection: Connection, events: Sequence[RunRequest]
) -> list[RunAcceptance | StaleTarget]:
    """Accept runs in a transaction of their own, as `accept`, and notify a worker.

    Args:
        connection: outside a transaction.
        events: the requests. One whose target is stale is not accepted; the others are.
    """
    async with pipelined_transaction(connection) as notifications:
        notifications += [(QUEUED_CHANNEL, str(one)) for one in {event.target.account_id for event in events}]
        if not all(map(_is_plain, events)):
            return await _accept_each(connection, events)
        cursor = await _insert(connection, events, ())
    stale = {row["id"] for row in await cursor.fetchall() if not row["is_current"]}
    stale -= await _find_stored(connection, stale)
    return [
        StaleTarget() if event.run_id in stale else RunAcceptance(run_id=event.run_id, repeated=False)
        for event in events
    ]


def _is_plain(event: RunRequest) -> bool:
    """Return whether one statement accepts an event, and its result need not be read before the commit."""
    return event.dedupe_key is None and not (event.actor or event.search_values or event.target.spec.skips)


async def _accept_each(
    connection: Connection, events: Sequence[RunRequest]
) -> list[RunAcceptance | StaleTarget]:
    if not any(event.target.spec.skips for event in events):
        return await _accept(connection, events, ())
    async with connection.transaction():
        over = await _find_over_limit(connection, events)
        return await _accept(connection, events, over)


async def _insert(
    connection: Connection, events: Sequence[RunRequest], over: Collection[UUID]
) -> AsyncCursor[DictRow]:
    columns = [list(column) for column in zip(*map(_row, events), strict=True)]
    return await connection.execute(_ACCEPT, [*columns, list(over)])


async def _find_stored(connection: Connection, run_ids: Collection[UUID]) -> set[UUID]:
    """Return which of these runs an earlier try has stored, whose reply was lost."""
    if not run_ids:
        return set()
    cursor = await connection.execute("select id from runs where id = any(%s)", (list(run_ids),))
    return {row["id"] for row in await cursor.fetchall()}


async def _accept(
    connection: Connection, events: Sequence[RunRequest], over: Collection[UUID]
) -> list[RunAcceptance | StaleTarget]:
    """Accept runs, and cancel those that are `over` the limit of their workflow."""
    accepted: dict[UUID, RunAcceptance | StaleTarget] = {}
    while left := [event for event in events if event.run_id not in accepted]:
        rows = await (await _insert(connection, left, over)).fetchall()
        inserted = {row["id"] for row in rows if row["is_current"]}
        stale = {row["id"] for row in rows if not row["is_current"]}
        stale -= await _find_stored(connection, stale)
        accepted |= {run_id: StaleTarget() for run_id in stale}
        if skipped := inserted.intersection(over):
            await connection.execute(_SKIP, {"ids": list(skipped), "error": Json(_OVER_LIMIT)})
            metrics.RUNS.add(len(skipped), "cancelled", _OVER_LIMIT["code"])
        started = [event for event in left if event.run_id in inserted]
        await search_values.insert_values(
            connection,
            {event.run_id: event.target.account_id for event in started},
            {event.run_id: event.search_values for event in started},
        )
        await audit.record_all(
            connection, [_draft_audit(event, by) for event in started if (by := event.actor)]
        )
        for event in left:
            if event.run_id in stale:
                continue
            if event.dedupe_key is None or event.run_id in inserted:
                status: RunStatus = "cancelled" if event.run_id in skipped else "queued"
                accepted[event.run_id] = RunAcceptance(run_id=event.run_id, repeated=False, status=status)
                continue
            before = await find_accepted(connection, event.target.automation_id, event.dedupe_key)
            # None: the first run was deleted between the two statements; accept the event again.
            if before is not None:
                repeated = before.run_id != event.run_id
                accepted[event.run_id] = before.model_copy(update={"repeated": repeated})
    return [accepted[event.run_id] for event in events]


_SKIP = """
update runs set status = 'cancelled', completed_at = now(), error = %(error)s
where id = any(%(ids)s) and completed_at is null
"""
_OVER_LIMIT = {
    "code": "concurrency_limit",
    "message": "As many runs of the workflow as may be at a time were under way.",
}
# Transactions that accept runs of the same workflow wait here, so that the count stays exact. The count needs
# a statement of its own: a statement that waits for a lock still sees the earlier state.
_LOCK = "select from automations where id = any(%s) order by id for no key update"
_ROOM = """
select a.id, a.concurrency_limit - (
  select count(*) from run_work w where w.account_id = a.account_id and w.automation_id = a.id)::int as room
from automations a where a.id = any(%s) and a.concurrency_limit is not null
"""


async def _find_over_limit(connection: Connection, events: Sequence[RunRequest]) -> set[UUID]:
    """Find the events for which there is no room; a repeated event needs none.

    Run it inside a transaction: its lock reserves the room until the end.
    """
    skipping = [event for event in events if event.target.spec.skips]
    automation_ids = sorted({event.target.automation_id for event in skipping})
    await connection.execute(_LOCK, (automation_ids,))
    cursor = await connection.execute(_ROOM, (automation_ids,))
    room = {row["id"]: row["room"] for row in await cursor.fetchall()}
    over: set[UUID] = set()
    keys: set[tuple[UUID, str]] = set()
    for event in skipping:
        automation_id, key = event.target.automation_id, event.dedupe_key
        if key is not None:
            known = (automation_id, key) in keys
            keys.add((automation_id, key))
            if known or await find_accepted(connection, automation_id, key) is not None:
                continue
        left = room.get(automation_id, 1)
        if left < 1:
            over.add(event.run_id)
        elif automation_id in room:
            room[automation_id] = left - 1
    return over


def _draft_audit(event: RunRequest, actor: Actor) -> audit.AuditDraft:
    target = audit.Target("workflow", event.target.automation_id)
    return audit.AuditDraft(actor, "run.started", target, {"run_id": str(event.run_id)})


def _row(event: RunRequest) -> tuple[Any, ...]:
    target = event.target
    priority = WAITED if event.is_waited_for else target.priority
    return (
        event.run_id, target.account_id, target.automation_id, target.version, priority, target.gate,
        target.own, event.trigger, _wrap_json(event.written_payload), _wrap_json(event.written_request),
        event.size, event.dedupe_key, event.parent_run_id, event.depth, event.upload_id, event.root_run_id,
        target.token_hash, *event.origin,
    )  # fmt: skip


def _wrap_json(text: bytes | None) -> Json | None:
    return None if text is None else Json(text, dumps=bytes)


async def find_accepted(connection: Connection, automation_id: UUID, dedupe_key: str) -> RunAcceptance | None:
    """Return the run that was accepted with this key, if there is one."""
    cursor = await connection.execute(
        "select run_id from run_dedupe_keys where automation_id = %s and dedupe_key = %s",
        (automation_id, dedupe_key),
    )
    row = await cursor.fetchone()
    return RunAcceptance(run_id=row["run_id"], repeated=True) if row else None
