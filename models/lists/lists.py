"""Contact lists: named targets of one type. Callers pass targets checked and in their normal form."""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, LiteralString, NamedTuple, cast, get_args
from uuid import UUID

import orjson
from pydantic import Field as Described
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field, SQLModel

from database import Connection
from models import audit
from models.audit import Actor, Target
from models.errors import Conflict, NotFound
from models.identifiers import new_id
from models.owned_targets import insert_targets
from models.views import View

MAX_LISTS = 1_000

TargetType = Literal["email", "phone", "domain", "ip", "company", "darkweb"]
"""The type of the targets of a list."""

# A transaction that creates a monitor of the list locks the list's row, and was waited for: this statement
# sees its monitor.
_PAUSE: LiteralString = (
    "update monitors set status = 'paused', paused_reason = 'list_deleted', next_run_at = null,"
    " updated_at = now() where list_id = %(list_id)s and deleted_at is null and status = 'active'"
)
_TYPES = ", ".join(f"'{name}'" for name in get_args(TargetType))


class ContactList(SQLModel, table=True):
    """A contact list.

    Attributes:
        target_count: the number of its targets, updated with each change of them.
        when: conditions on changes, for monitors of the list without conditions of their own.
    """

    __tablename__ = "lists"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        CheckConstraint(f"type in ({_TYPES})", name="ck_lists_type"),
        Index("ix_lists_account_id_id", "account_id", "id"),
    )

    id: UUID = Field(primary_key=True)
    account_id: UUID = Field(sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False))
    name: str = Field(sa_type=Text)
    type: str = Field(sa_type=Text)
    target_count: int
    when: Any = Field(sa_column=Column(JSONB, nullable=False, server_default="[]"))
    created_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    updated_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


class ListTarget(SQLModel, table=True):
    """A target of a list.

    Attributes:
        id: greater than the ids of all targets that were added before.
    """

    __tablename__ = "list_targets"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (UniqueConstraint("list_id", "target", name="uq_list_targets_list_id_target"),)

    list_id: UUID = Field(sa_column=Column(ForeignKey("lists.id", ondelete="CASCADE"), primary_key=True))
    id: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    target: str = Field(sa_column=Column(Text(collation="C"), nullable=False))


class ListView(View):
    """A list as the API shows it: without its targets."""

    id: UUID = Described(description="The list's id.")
    name: str = Described(description="What it is called.")
    type: TargetType = Described(description="What its targets are.")
    target_count: int = Described(description="How many targets it has.")
    when: list[dict[str, Any]] = Described(
        description="Conditions on changes, for monitors that watch the list and have none of their own."
    )
    list_type: TargetType = Described(description="The same as `type`, for older clients.")
    email_count: int = Described(description="The same as `target_count`, for older clients.")
    created_at: datetime = Described(description="When it was made.")
    updated_at: datetime = Described(description="When its name or its targets last changed.")


class NumberedTarget(NamedTuple):
    """A target, and its id; ids increase in the order of adding."""

    id: int
    target: str


async def create(
    connection: Connection,
    actor: Actor,
    name: str,
    type: TargetType,
    targets: Sequence[str],
    when: Sequence[Mapping[str, Any]] = (),
) -> ListView:
    """Create a list; call it in a transaction.

    Args:
        connection: inside a transaction.
        actor: the owner of the list, and its creator.
        name: a name for people.
        type: the type of its targets.
        targets: in their normal forms; duplicates are ignored.
        when: conditions on changes, checked.

    Raises:
        Conflict: the account has 1,000 lists.
    """
    # The lock makes creations of an account run one after the other, so that the limit holds.
    await connection.execute("select from accounts where id = %s for no key update", (actor.account_id,))
    cursor = await connection.execute(
        "select count(*)::int as n from lists where account_id = %s", (actor.account_id,)
    )
    if cast(dict[str, int], await cursor.fetchone())["n"] >= MAX_LISTS:
        raise Conflict("too_many_lists", f"An account has at most {MAX_LISTS:,} lists; delete some.")
    list_id = new_id()
    await connection.execute(
        'insert into lists (id, account_id, name, type, "when", target_count, created_at, updated_at)'
        " values (%s, %s, %s, %s, %s, 0, now(), now())",
        (list_id, actor.account_id, name, type, orjson.dumps(list(when)).decode()),
    )
    added = await insert_targets(connection, "list", list_id, targets)
    changes = {"name": name, "type": type, "target_count": added}
    await audit.record(connection, actor, "list.created", Target("list", list_id, name), changes)
    return await get(connection, actor.account_id, list_id)


async def list_all(
    connection: Connection, account_id: UUID, type: TargetType | None = None
) -> list[ListView]:
    """Return the account's lists, newest first, optionally of one type."""
    cursor = await connection.execute(
        "select * from lists where account_id = %s and type = coalesce(%s, type) order by id desc",
        (account_id, type),
    )
    return [_view(row) for row in await cursor.fetchall()]


async def get(connection: Connection, account_id: UUID, list_id: UUID) -> ListView:
    """Return one list.

    Raises:
        NotFound: unknown, or another account's.
    """
    cursor = await connection.execute(
        "select * from lists where id = %s and account_id = %s", (list_id, account_id)
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("list")
    return _view(row)


async def rename(connection: Connection, actor: Actor, list_id: UUID, name: str) -> ListView:
    """Rename a list; call it in a transaction.

    Raises:
        NotFound: unknown, or another account's.
    """
    former = await _lock(connection, actor.account_id, list_id)
    if name != former:
        await connection.execute(
            "update lists set name = %s, updated_at = now() where id = %s", (name, list_id)
        )
        changes = {"name": {"old": former, "new": name}}
        await audit.record(connection, actor, "list.renamed", Target("list", list_id, name), changes)
    return await get(connection, actor.account_id, list_id)


async def set_conditions(
    connection: Connection, actor: Actor, list_id: UUID, when: Sequence[Mapping[str, Any]]
) -> ListView:
    """Replace a list's conditions on changes with checked ones; call it in a transaction.

    Raises:
        NotFound: unknown, or another account's.
    """
    name = await _lock(connection, actor.account_id, list_id)
    former = (await get(connection, actor.account_id, list_id)).when
    if list(when) != former:
        await connection.execute(
            'update lists set "when" = %s, updated_at = now() where id = %s',
            (orjson.dumps(list(when)).decode(), list_id),
        )
        changes = {"when": {"old": former, "new": list(when)}}
        await audit.record(connection, actor, "list.changed", Target("list", list_id, name), changes)
    return await get(connection, actor.account_id, list_id)


async def delete(connection: Connection, actor: Actor, list_id: UUID) -> None:
    """Delete a list with its targets, and pause its monitors; call it in a transaction.

    Raises:
        NotFound: unknown, or another account's.
    """
    await _lock(connection, actor.account_id, list_id)
    await connection.execute("select from lists where id = %s for update", (list_id,))
    await connection.execute(_PAUSE, {"list_id": list_id})
    cursor = await connection.execute(
        "delete from lists where id = %s and account_id = %s returning name, type, target_count",
        (list_id, actor.account_id),
    )
    gone = await cursor.fetchone()
    if gone is None:
        raise NotFound("list")
    await audit.record(connection, actor, "list.deleted", Target("list", list_id, gone.pop("name")), gone)


async def add_targets(connection: Connection, actor: Actor, list_id: UUID, targets: Sequence[str]) -> int:
    """Add targets to a list, in this order; call it in a transaction.

    Args:
        connection: inside a transaction.
        actor: the owner of the list, and the one who adds them.
        list_id: the list.
        targets: in their normal forms; targets of the list and duplicates are ignored.

    Returns:
        The number of added targets.

    Raises:
        NotFound: unknown, or another account's.
        Conflict: the list would have more than 100,000 targets.
    """
    name = await _lock(connection, actor.account_id, list_id)
    added = await insert_targets(connection, "list", list_id, targets)
    if added:
        await audit.record(
            connection, actor, "list.targets_added", Target("list", list_id, name), {"added": added}
        )
    return added


async def import_targets(
    connection: Connection, actor: Actor, list_id: UUID, batches: AsyncIterable[Sequence[str]]
) -> int:
    """Add targets from many batches, all or none, as `add_targets` does; call it in a transaction."""
    name = await _lock(connection, actor.account_id, list_id)
    added = 0
    async for targets in batches:
        added += await insert_targets(connection, "list", list_id, targets)
    if added:
        await audit.record(
            connection, actor, "list.targets_added", Target("list", list_id, name), {"added": added}
        )
    return added


async def remove_targets(connection: Connection, actor: Actor, list_id: UUID, targets: Sequence[str]) -> int:
    """Remove targets from a list; call it in a transaction.

    Returns:
        The number of removed targets.

    Raises:
        NotFound: unknown, or another account's.
    """
    name = await _lock(connection, actor.account_id, list_id)
    cursor = await connection.execute(
        "with gone as ("
        " delete from list_targets where list_id = %(list_id)s and target = any(%(targets)s::text[])"
        " returning id), counted as (select count(*)::int as n from gone)"
        " update lists set target_count = target_count - n, updated_at = now() from counted"
        " where id = %(list_id)s and n > 0 returning n",
        {"list_id": list_id, "targets": list(targets)},
    )
    row = await cursor.fetchone()
    if row is None:
        return 0
    changes = {"deleted": row["n"]}
    await audit.record(connection, actor, "list.targets_removed", Target("list", list_id, name), changes)
    return row["n"]


async def targets_after(
    connection: Connection, list_id: UUID, after: int, limit: int
) -> list[NumberedTarget]:
    """Return targets of a list in the order of adding, after the id `after` (0 for the start)."""
    cursor = await connection.execute(
        "select id, target from list_targets where list_id = %s and id > %s order by id limit %s",
        (list_id, after, limit),
    )
    return [NumberedTarget(**row) for row in await cursor.fetchall()]


async def _lock(connection: Connection, account_id: UUID, list_id: UUID) -> str:
    """Lock a list until the transaction ends, so that its count stays exact. Return its name."""
    cursor = await connection.execute(
        "select name from lists where id = %s and account_id = %s for no key update", (list_id, account_id)
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("list")
    return row["name"]


def _view(row: dict[str, Any]) -> ListView:
    shown = {name: row[name] for name in ListView.model_fields if name in row}
    return ListView(**shown, list_type=row["type"], email_count=row["target_count"])
