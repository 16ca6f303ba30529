"""The targets of monitors without a list. Callers pass them checked and in their normal form."""

from __future__ import annotations

from collections.abc import AsyncIterable, Sequence
from uuid import UUID

from sqlalchemy import BigInteger, Column, ForeignKey, Identity, Text, UniqueConstraint
from sqlmodel import Field, SQLModel

from database import Connection
from models import audit
from models.audit import Actor, Target
from models.errors import Conflict, FieldError, Invalid
from models.lists.lists import NumberedTarget, TargetType
from models.owned_targets import insert_targets


class MonitorTarget(SQLModel, table=True):
    """A target of a monitor.

    Attributes:
        id: greater than the ids of all targets that were added before.
    """

    __tablename__ = "monitor_targets"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (UniqueConstraint("monitor_id", "target", name="uq_monitor_targets_monitor_id_target"),)

    monitor_id: UUID = Field(
        sa_column=Column(ForeignKey("monitors.id", ondelete="CASCADE"), primary_key=True)
    )
    id: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    target: str = Field(sa_column=Column(Text(collation="C"), nullable=False))


async def add(
    connection: Connection, actor: Actor, monitor_id: UUID, name: str, targets: Sequence[str]
) -> int:
    """Add targets to a locked monitor; return the number of new ones.

    Raises:
        Conflict: the monitor would have more than 100,000 targets.
    """
    added = await insert_targets(connection, "monitor", monitor_id, targets)
    if added:
        target = Target("monitor", monitor_id, name)
        await audit.record(connection, actor, "monitor.targets_added", target, {"added": added})
    return added


async def add_all(
    connection: Connection, actor: Actor, monitor_id: UUID, name: str, batches: AsyncIterable[Sequence[str]]
) -> int:
    """Add the targets of many batches, all or none, as `add` does."""
    added = 0
    async for targets in batches:
        added += await insert_targets(connection, "monitor", monitor_id, targets)
    if added:
        target = Target("monitor", monitor_id, name)
        await audit.record(connection, actor, "monitor.targets_added", target, {"added": added})
    return added


async def remove(
    connection: Connection, actor: Actor, monitor_id: UUID, name: str, targets: Sequence[str]
) -> int:
    """Remove targets of a locked monitor and their baselines; return the number of removed targets.

    If a target is added again, it is compared with nothing from before. Its results stay.
    """
    cursor = await connection.execute(
        "with gone as ("
        " delete from monitor_targets where monitor_id = %(monitor_id)s and target = any(%(targets)s::text[])"
        " returning target), counted as (select count(*)::int as n from gone), forgotten as ("
        " delete from monitor_baselines b using gone where b.monitor_id = %(monitor_id)s"
        " and b.target = gone.target)"
        " update monitors set target_count = target_count - n, updated_at = now() from counted"
        " where id = %(monitor_id)s and n > 0 returning n",
        {"monitor_id": monitor_id, "targets": list(targets)},
    )
    row = await cursor.fetchone()
    if row is None:
        return 0
    target = Target("monitor", monitor_id, name)
    await audit.record(connection, actor, "monitor.targets_removed", target, {"deleted": row["n"]})
    return row["n"]


async def targets_after(
    connection: Connection, monitor_id: UUID, after: int, limit: int
) -> list[NumberedTarget]:
    """Return the monitor's own targets in the order of adding, after the id `after` (0 for the start)."""
    cursor = await connection.execute(
        "select id, target from monitor_targets where monitor_id = %s and id > %s order by id limit %s",
        (monitor_id, after, limit),
    )
    return [NumberedTarget(**row) for row in await cursor.fetchall()]


async def check_list(connection: Connection, account_id: UUID, type: TargetType, list_id: UUID) -> int:
    """Return the number of targets of a list, and lock it against deletion until the transaction ends.

    Raises:
        Invalid: the list is unknown, another account's, or of another type.
    """
    cursor = await connection.execute(
        "select type, target_count from lists where id = %s and account_id = %s for key share",
        (list_id, account_id),
    )
    row = await cursor.fetchone()
    if row is None:
        error = FieldError("/data_source_ref", "unknown_list", "The account has no such list.")
        raise Invalid([error])
    if row["type"] != type:
        message = f"The list has targets of type {row['type']}, the monitor watches {type}."
        raise Invalid([FieldError("/data_source_ref", "list_of_other_type", message)])
    return row["target_count"]


async def require_list(connection: Connection, list_id: UUID) -> None:
    """Lock a monitor's list against deletion until the transaction ends.

    Raises:
        Conflict: the list was deleted, so the monitor cannot be resumed.
    """
    cursor = await connection.execute("select from lists where id = %s for key share", (list_id,))
    if await cursor.fetchone() is None:
        message = "The list that it watched was deleted: choose another as data_source_ref first."
        raise Conflict("list_deleted", message)
