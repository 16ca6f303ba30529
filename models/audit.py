"""The audit log: one entry for each change, written in the same transaction as the change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, LiteralString, NamedTuple
from uuid import UUID

import orjson
from psycopg.types.json import Json
from pydantic import Field as Described
from sqlalchemy import JSON, Column, DateTime, ForeignKey, Index, Text
from sqlmodel import Field, SQLModel

from database import Connection
from models.append_only import append_only
from models.errors import NotFound
from models.identifiers import new_id
from models.views import View

ActorKind = Literal["session", "key", "operator", "system"]
Source = Literal["api", "mcp", "chat"]

_MASKED = frozenset({"password", "new_password", "current_password", "secret", "token", "key", "value"})
_MASK = "***"
_LONGEST_SHOWN = 2048


class AuditEntry(SQLModel, table=True):
    """One entry of the audit log."""

    __tablename__ = "audit_log"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        Index("ix_audit_log_account_id_id", "account_id", "id"),
        Index("ix_audit_log_target", "account_id", "target_kind", "target_id", "id"),
        Index(
            "ix_audit_log_workflows",
            "account_id",
            "id",
            postgresql_where="target_kind in ('workflow', 'secret')",
        ),
        Index(
            "ix_audit_log_definitions",
            "account_id",
            "id",
            postgresql_where="target_kind in ('workflow', 'secret') and action not like 'run.%'",
        ),
    )

    id: UUID = Field(primary_key=True)
    account_id: UUID = Field(sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False))
    actor_kind: str = Field(sa_type=Text)
    actor_id: UUID | None
    actor_name: str = Field(sa_type=Text)
    action: str = Field(sa_type=Text)
    target_kind: str = Field(sa_type=Text)
    target_id: UUID | None
    target_name: str | None = Field(sa_type=Text)
    changes: Any = Field(sa_column=Column(JSON))
    request_id: str | None = Field(sa_type=Text)
    ip: str | None = Field(sa_type=Text)
    source: str | None = Field(default=None, sa_type=Text)
    created_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


append_only(SQLModel.metadata.tables["audit_log"], deletable=True)


@dataclass(frozen=True)
class Actor:
    """The person or program that makes a change.

    Attributes:
        account_id: the account whose data changes.
        kind: a session or a key of the API, an operator at the command line, or the service itself.
        id: of the session or key.
        name: the key's name, the person's e-mail, `operator` or `system`.
        request_id: the request that asked for the change.
        ip: the client's address.
        source: the interface through which the request came; None if there was no request.
    """

    account_id: UUID
    kind: ActorKind
    id: UUID | None = None
    name: str = ""
    request_id: str | None = None
    ip: str | None = None
    source: Source | None = None

    @property
    def is_agent(self) -> bool:
        """Return whether an agent, by a tool of the MCP server or of the assistant, makes the change."""
        return self.source in ("mcp", "chat")


class ActorView(View):
    """The person or program that made a change."""

    kind: ActorKind = Described(
        description="A session or a key of the API, an operator at the command line, or the service itself."
    )
    id: UUID | None = Described(description="Of the session or key; null for the others.")
    name: str = Described(description="The key's name, the person's e-mail, `operator` or `system`.")


class TargetView(View):
    """The object that was changed."""

    kind: str = Described(description="What it is: `workflow`, `secret`.")
    id: UUID | None = Described(description="Its id; null for what has none.")
    name: str | None = Described(description="What it was called then.")


class AuditView(View):
    """One change."""

    id: UUID = Described(description="The entry's id.")
    actor: ActorView = Described(description="Who made it.")
    action: str = Described(description="What was done: `workflow.updated`, `run.cancelled`.")
    target: TargetView = Described(description="To what; of what was done to a run, its workflow.")
    changes: dict[str, Any] | None = Described(
        description="What is new, or by field what was and is; secrets are masked."
    )
    request_id: str | None = Described(description="The request that asked for it.")
    ip: str | None = Described(description="The client's address.")
    source: Source | None = Described(
        description="`api`, `mcp` for an agent's tool, `chat` for the assistant's; null for what no request"
        " asked for."
    )
    created_at: datetime = Described(description="When.")


@dataclass(frozen=True)
class Target:
    """The object that is changed: its noun (`key`, `workflow`), id and name."""

    kind: str
    id: UUID | None = None
    name: str | None = None


async def record(
    connection: Connection,
    actor: Actor,
    action: str,
    target: Target,
    changes: Mapping[str, Any] | None = None,
) -> None:
    """Write an entry; call it in the transaction of the change.

    Args:
        connection: inside the transaction that makes the change.
        actor: who makes it.
        action: `noun.verb`, such as `key.revoked`.
        target: what is changed.
        changes: new values, or `{field: {"old": …, "new": …}}`; secrets in it are masked here.
    """
    await record_all(connection, [AuditDraft(actor, action, target, changes)])


class AuditDraft(NamedTuple):
    """The arguments of one `record` call."""

    actor: Actor
    action: str
    target: Target
    changes: Mapping[str, Any] | None = None


async def record_all(connection: Connection, entries: Sequence[AuditDraft]) -> None:
    """Write several entries, as `record` does.

    A target without a name gets the name of the workflow with its id.
    """
    rows = [
        (
            new_id(), actor.account_id, actor.kind, actor.id, actor.name, action, target.kind, target.id,
            target.name, target.id, None if changes is None else Json(mask_secrets(changes)),
            actor.request_id, actor.ip, actor.source,
        )
        for actor, action, target, changes in entries
    ]  # fmt: skip
    if not rows:
        return
    async with connection.cursor() as cursor:
        await cursor.executemany(
            "insert into audit_log (id, account_id, actor_kind, actor_id, actor_name, action, target_kind,"
            " target_id, target_name, changes, request_id, ip, source, created_at)"
            " values (%s, %s, %s, %s, %s, %s, %s, %s,"
            " coalesce(%s, (select name from automations where id = %s)), %s, %s, %s, %s, now())",
            rows,
        )


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `old` and `new` value of each field that differs; above 2 KiB of JSON only their sizes."""
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return {name: _difference(old.get(name), new.get(name)) for name in names}


def _difference(old: Any, new: Any) -> dict[str, Any]:
    sizes = [len(orjson.dumps(value)) for value in (old, new)]
    if max(sizes) > _LONGEST_SHOWN:
        return {"old_bytes": sizes[0], "new_bytes": sizes[1]}
    return {"old": old, "new": new}


def mask_secrets(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `changes` with each value under a secret's name replaced by `***`, at any depth."""
    return {name: _MASK if name.lower() in _MASKED else _mask_value(value) for name, value in changes.items()}


def _mask_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return mask_secrets(value)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, list | tuple):
        return [_mask_value(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value


async def list_entries(
    connection: Connection,
    account_id: UUID,
    *,
    target_kind: str | None = None,
    target_id: UUID | None = None,
    before: UUID | None = None,
    limit: int = 20,
) -> list[AuditView]:
    """Return the account's entries, newest first.

    Args:
        connection: inside or outside a transaction.
        account_id: the owner.
        target_kind: only entries about this noun.
        target_id: only entries about this object; needs `target_kind`.
        before: only entries older than this one.
        limit: the highest number of entries to return.
    """
    where: LiteralString = "true"
    where += " and target_kind = %(kind)s" if target_kind is not None else ""
    where += " and target_id = %(target)s" if target_id is not None else ""
    of = {"kind": target_kind, "target": target_id}
    return await _load_entries(connection, account_id, where, of, before, limit)


async def list_workflow_entries(
    connection: Connection, account_id: UUID, automation_id: UUID | None, *, before: UUID | None, limit: int
) -> tuple[list[AuditView], UUID | None]:
    """Return a page of the entries of one workflow, or of all workflows and their secrets, newest first.

    Returns:
        The entries, and the `before` of the next page if there is one.

    Raises:
        NotFound: the account has never had this workflow.
    """
    where: LiteralString = "target_kind in ('workflow', 'secret')"
    if automation_id is not None:
        cursor = await connection.execute(
            "select from automations where account_id = %s and id = %s", (account_id, automation_id)
        )
        if await cursor.fetchone() is None:
            raise NotFound("workflow")
        where = "target_kind = 'workflow' and target_id = %(target)s"
    found = await _load_entries(connection, account_id, where, {"target": automation_id}, before, limit + 1)
    return found[:limit], found[limit - 1].id if len(found) > limit else None


async def _load_entries(
    connection: Connection,
    account_id: UUID,
    where: LiteralString,
    of: Mapping[str, Any],
    before: UUID | None,
    limit: int,
) -> list[AuditView]:
    older: LiteralString = " and id < %(before)s" if before is not None else ""
    cursor = await connection.execute(
        "select * from audit_log where account_id = %(account)s and " + where + older
        + " order by id desc limit %(limit)s",
        {"account": account_id, "before": before, "limit": limit, **of},
    )  # fmt: skip
    return [_view(row) for row in await cursor.fetchall()]


_DELETE_OF_RUNS = """
with old as (
  select id from audit_log where id > %(after)s and id < first_id(now() - %(kept)s) and action like 'run.%%'
  order by id limit %(limit)s
)
delete from audit_log where id = any(array(select id from old)) returning id
"""


async def delete_of_runs(connection: Connection, kept: timedelta, limit: int = 1000) -> None:
    """Delete the entries about runs that are older than `kept`, `limit` at a time.

    There can be as many of them as runs. Entries about other things are kept as long as their account.
    """
    after = UUID(int=0)
    while True:
        cursor = await connection.execute(_DELETE_OF_RUNS, {"after": after, "kept": kept, "limit": limit})
        deleted = [row["id"] for row in await cursor.fetchall()]
        if len(deleted) < limit:
            return
        after = max(deleted)


def _view(row: dict[str, Any]) -> AuditView:
    return AuditView(
        actor=ActorView(kind=row["actor_kind"], id=row["actor_id"], name=row["actor_name"]),
        target=TargetView(kind=row["target_kind"], id=row["target_id"], name=row["target_name"]),
        **{
            name: row[name]
            for name in ("id", "action", "changes", "request_id", "ip", "source", "created_at")
        },
    )
