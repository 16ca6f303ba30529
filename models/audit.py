"""The audit log: who did what to what, written in the transaction of the change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from psycopg.types.json import Json
from pydantic import BaseModel
from sqlalchemy import JSON, Column, DateTime, ForeignKey, Index, Text
from sqlmodel import Field, SQLModel

from database import Connection
from models.append_only import append_only
from models.identifiers import new_id

ActorKind = Literal["session", "key", "operator", "system"]

_MASKED = frozenset({"password", "new_password", "current_password", "secret", "token", "key", "value"})
_MASK = "***"


class AuditEntry(SQLModel, table=True):
    """One change."""

    __tablename__ = "audit_log"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        Index("ix_audit_log_account_id_id", "account_id", "id"),
        Index("ix_audit_log_target", "account_id", "target_kind", "target_id", "id"),
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
    created_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


append_only(SQLModel.metadata.tables["audit_log"], deletable=True)


@dataclass(frozen=True)
class Actor:
    """Who makes a change.

    Attributes:
        account_id: whose data it is.
        kind: a session or a key of the API, an operator at the command line, or the service itself.
        id: of the session or key.
        name: the key's name, the person's e-mail, `operator` or `system`.
        request_id: the request that asked for it.
        ip: the client's address.
    """

    account_id: UUID
    kind: ActorKind
    id: UUID | None = None
    name: str = ""
    request_id: str | None = None
    ip: str | None = None


class ActorView(BaseModel, frozen=True):
    """Who made a change."""

    kind: ActorKind
    id: UUID | None
    name: str


class TargetView(BaseModel, frozen=True):
    """What was changed."""

    kind: str
    id: UUID | None
    name: str | None


class AuditView(BaseModel, frozen=True):
    """An entry as the API shows it."""

    id: UUID
    actor: ActorView
    action: str
    target: TargetView
    changes: dict[str, Any] | None
    request_id: str | None
    ip: str | None
    created_at: datetime


@dataclass(frozen=True)
class Target:
    """What is changed: a noun (`key`, `workflow`), its id and its name."""

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
    await connection.execute(
        "insert into audit_log (id, account_id, actor_kind, actor_id, actor_name, action, target_kind,"
        " target_id, target_name, changes, request_id, ip, created_at)"
        " values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, now())",
        (
            new_id(), actor.account_id, actor.kind, actor.id, actor.name, action, target.kind,
            target.id, target.name, None if changes is None else Json(masked(changes)),
            actor.request_id, actor.ip,
        ),
    )  # fmt: skip


def masked(changes: Mapping[str, Any]) -> dict[str, Any]:
    """`changes` with every value under a secret's name replaced by `***`, at any depth."""
    return {name: _MASK if name.lower() in _MASKED else _masked(value) for name, value in changes.items()}


def _masked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return masked(value)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, list | tuple):
        return [_masked(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value


async def entries(
    connection: Connection,
    account_id: UUID,
    *,
    target_kind: str | None = None,
    target_id: UUID | None = None,
    before: UUID | None = None,
    limit: int = 20,
) -> list[AuditView]:
    """The account's entries, newest first.

    Args:
        connection: any.
        account_id: whose.
        target_kind: only what happened to this noun.
        target_id: only what happened to this one; needs `target_kind`.
        before: only entries older than this one.
        limit: at most so many.
    """
    cursor = await connection.execute(
        "select * from audit_log where account_id = %(account)s"
        " and (%(kind)s::text is null or target_kind = %(kind)s)"
        " and (%(target)s::uuid is null or target_id = %(target)s)"
        " and (%(before)s::uuid is null or id < %(before)s)"
        " order by id desc limit %(limit)s",
        {"account": account_id, "kind": target_kind, "target": target_id, "before": before, "limit": limit},
    )
    return [_view(row) for row in await cursor.fetchall()]


def _view(row: dict[str, Any]) -> AuditView:
    return AuditView(
        actor=ActorView(kind=row["actor_kind"], id=row["actor_id"], name=row["actor_name"]),
        target=TargetView(kind=row["target_kind"], id=row["target_id"], name=row["target_name"]),
        **{name: row[name] for name in ("id", "action", "changes", "request_id", "ip", "created_at")},
    )
