"""Monitors: their targets, their calendars, and the parts of answers that count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, LiteralString, NamedTuple, cast
from uuid import UUID

import orjson
from sqlalchemy import JSON, BigInteger, CheckConstraint, Column, DateTime, ForeignKey, Index, Integer, Text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlmodel import Field, SQLModel

from database import Connection
from models import audit
from models.audit import Actor, Target
from models.errors import Conflict, NotFound
from models.identifiers import new_id
from models.lists.lists import TargetType
from models.monitors import monitored_targets
from models.monitors.monitor_views import SHOWN, MonitorView, view_of
from models.owned_targets import insert_targets
from models.schedules.calendars import Calendar

MAX_MONITORS = 1_000
CHANGED_CHANNEL = "monitors_changed"
"""Notified when the next time of a monitor changes or a run of it can begin: dispatchers wake."""


class Monitor(SQLModel, table=True):
    """A monitor.

    Attributes:
        list_id: the list that it watches; null if it has targets of its own.
        target_count: the number of its own targets.
        run_id: its run that has not ended.
        runs, results, changed: the number of its runs; of those that have ended, the number of results, and
            of results with changes.
        seen_run_id, seen_at, seen_changed: the newest run whose changes the account has seen, which may be
            purged since; when it marked it; and the number of kept results with changes up to it.
        next_run_at: when it is due; null while it is paused.
        scheduled_for: the `next_run_at` that its Temporal Schedule last got.
        deleted_at: from then on it is hidden, and its rows are deleted.
    """

    __tablename__ = "monitors"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        CheckConstraint("status in ('active', 'paused')", name="ck_monitors_status"),
        CheckConstraint(
            "monitor_type in ('email', 'phone', 'domain', 'ip', 'company', 'darkweb')",
            name="ck_monitors_type",
        ),
        CheckConstraint("(frequency is null) <> (cron is null)", name="ck_monitors_calendar"),
        CheckConstraint(
            "(next_run_at is null) = (status = 'paused' or deleted_at is not null)",
            name="ck_monitors_next_run_at",
        ),
        Index("ix_monitors_account_id_id", "account_id", "id"),
        Index("ix_monitors_list_id", "list_id", postgresql_where="list_id is not null"),
        Index("ix_monitors_next_run_at", "next_run_at", postgresql_where="next_run_at is not null"),
        Index("ix_monitors_unscheduled", "id", postgresql_where="scheduled_for is distinct from next_run_at"),
        Index("ix_monitors_deleted", "id", postgresql_where="deleted_at is not null"),
        {"postgresql_with": {"fillfactor": 50}},
    )

    id: UUID = Field(primary_key=True)
    account_id: UUID = Field(sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False))
    name: str = Field(sa_type=Text)
    status: str = Field(sa_type=Text)
    paused_reason: str | None = Field(sa_type=Text)
    monitor_type: str = Field(sa_type=Text)
    frequency: str | None = Field(sa_type=Text)
    cron: str | None = Field(sa_type=Text)
    timezone: str = Field(sa_type=Text)
    change_detection: str = Field(sa_type=Text)
    tracked_fields: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    ignored_fields: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    tolerance: Any = Field(sa_column=Column(JSON, nullable=False))
    when: Any = Field(sa_column=Column(JSONB, nullable=False, server_default="[]"))
    retention_days: int | None
    list_id: UUID | None
    target_count: int = Field(sa_column=Column(Integer, nullable=False))
    run_id: UUID | None
    runs: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    results: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    changed: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    last_run_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    next_run_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    scheduled_for: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    created_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    updated_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    deleted_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    seen_run_id: UUID | None
    seen_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    seen_changed: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))


@dataclass(frozen=True)
class MonitorSettings:
    """The settings of a monitor.

    Attributes:
        tolerance: field → its tolerance, if it is not the default.
        when: conditions on changes, each a field with an operator and its value.
        list_id: the list to watch; None for targets of its own.
        retention_days: None for the installation's default.
    """

    name: str
    frequency: str | None = "monthly"
    cron: str | None = None
    timezone: str = "UTC"
    change_detection: str = "diff_only"
    tracked_fields: Sequence[str] = ()
    ignored_fields: Sequence[str] = ()
    tolerance: Mapping[str, float] = field(default_factory=dict[str, float])
    when: Sequence[Mapping[str, Any]] = ()
    retention_days: int | None = None
    list_id: UUID | None = None


_COLUMNS: LiteralString = (
    "name, frequency, cron, timezone, change_detection, tracked_fields, ignored_fields, tolerance,"
    ' "when", retention_days, list_id'
)
_PLACES: LiteralString = (
    "%(name)s, %(frequency)s, %(cron)s, %(timezone)s, %(change_detection)s, %(tracked_fields)s,"
    " %(ignored_fields)s, %(tolerance)s, %(when)s, %(retention_days)s, %(list_id)s"
)
_PLANNED = tuple(MonitorSettings.__dataclass_fields__)


class LockedMonitor(NamedTuple):
    """A monitor's row, locked against changes until the transaction ends."""

    row: dict[str, Any]

    @property
    def plan(self) -> MonitorSettings:
        """The settings of the monitor."""
        return MonitorSettings(**{name: self.row[name] for name in _PLANNED})

    def next_after(self, moment: datetime) -> datetime:
        """Return the next time at which it is due after this moment."""
        return _calendar(self.plan, self.row["created_at"]).next_after(moment)


async def create(
    connection: Connection, actor: Actor, type: TargetType, plan: MonitorSettings, targets: Sequence[str]
) -> UUID:
    """Create an active monitor; call it in a transaction. Notify `CHANGED_CHANNEL` after the commit.

    Args:
        connection: inside a transaction.
        actor: the owner of the monitor, and its creator.
        type: the type of its targets.
        plan: its settings, checked: the calendar and the fields exist.
        targets: its own targets, in their normal forms; duplicates are ignored.

    Raises:
        Conflict: the account has 1,000 monitors.
        Invalid: the list is unknown, another account's, or of another type.
    """
    # The lock makes creations of an account run one after the other, so that the limit holds.
    await connection.execute("select from accounts where id = %s for no key update", (actor.account_id,))
    cursor = await connection.execute(
        "select count(*)::int as n, now() from monitors where account_id = %s and deleted_at is null",
        (actor.account_id,),
    )
    found = cast(dict[str, Any], await cursor.fetchone())
    if found["n"] >= MAX_MONITORS:
        message = f"An account has at most {MAX_MONITORS:,} monitors; delete some."
        raise Conflict("too_many_monitors", message)
    if plan.list_id is not None:
        await monitored_targets.check_list(connection, actor.account_id, type, plan.list_id)
    monitor_id, now = new_id(), found["now"]
    values = _values(plan) | {
        "id": monitor_id,
        "account": actor.account_id,
        "type": type,
        "now": now,
        "next": _calendar(plan, now).next_after(now),
    }
    await connection.execute(
        "insert into monitors (id, account_id, status, monitor_type, target_count, next_run_at, created_at,"
        " updated_at, " + _COLUMNS + ") values (%(id)s, %(account)s, 'active', %(type)s, 0, %(next)s,"
        " %(now)s, %(now)s, " + _PLACES + ")",
        values,
    )
    added = await insert_targets(connection, "monitor", monitor_id, targets)
    changes = {"name": plan.name, "monitor_type": type, "target_count": added}
    await audit.record(
        connection, actor, "monitor.created", Target("monitor", monitor_id, plan.name), changes
    )
    return monitor_id


async def lock(connection: Connection, account_id: UUID, monitor_id: UUID) -> LockedMonitor:
    """Lock a monitor's row until the transaction ends.

    Raises:
        NotFound: the monitor is unknown, or another account's.
    """
    cursor = await connection.execute(
        "select * from monitors where id = %s and account_id = %s and deleted_at is null for no key update",
        (monitor_id, account_id),
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("monitor")
    return LockedMonitor(row)


async def change(connection: Connection, actor: Actor, locked: LockedMonitor, plan: MonitorSettings) -> None:
    """Change a monitor's settings, in the transaction that locked it. Notify as for `create`.

    Args:
        connection: in that transaction.
        actor: the one who changes it.
        locked: the monitor.
        plan: all new settings, checked. Calendars still count from the monitor's creation.

    Raises:
        Invalid: the list is unknown, another account's, or of another type.
    """
    row, former = locked.row, locked.plan
    if plan == former:
        return
    if plan.list_id is not None and plan.list_id != former.list_id:
        await monitored_targets.check_list(connection, actor.account_id, row["monitor_type"], plan.list_id)
    now = datetime.now(UTC)
    calendar = _calendar(plan, row["created_at"])
    moved = calendar != _calendar(former, row["created_at"])
    due = calendar.next_after(now) if moved and row["status"] == "active" else row["next_run_at"]
    await connection.execute(
        "update monitors set (" + _COLUMNS + ") = row(" + _PLACES + "), next_run_at = %(due)s,"
        " updated_at = now() where id = %(id)s",
        _values(plan) | {"due": due, "id": row["id"]},
    )
    old, new = asdict(former), asdict(plan)
    changes = {name: {"old": old[name], "new": new[name]} for name in _PLANNED if old[name] != new[name]}
    target = Target("monitor", row["id"], plan.name)
    await audit.record(connection, actor, "monitor.changed", target, changes)


async def pause(connection: Connection, actor: Actor, monitor_id: UUID) -> None:
    """Pause a monitor: it no longer runs by itself; a run under way continues. Notify as for `create`.

    Raises:
        NotFound: the monitor is unknown, or another account's.
    """
    row = (await lock(connection, actor.account_id, monitor_id)).row
    if row["status"] == "active":
        await connection.execute(
            "update monitors set status = 'paused', paused_reason = null, next_run_at = null,"
            " updated_at = now() where id = %s",
            (monitor_id,),
        )
        await audit.record(connection, actor, "monitor.paused", Target("monitor", monitor_id, row["name"]))


async def resume(connection: Connection, actor: Actor, monitor_id: UUID) -> None:
    """Resume a monitor from the next time of its calendar on. Notify as for `create`.

    Raises:
        NotFound: the monitor is unknown, or another account's.
        Conflict: its list was deleted.
    """
    locked = await lock(connection, actor.account_id, monitor_id)
    if locked.row["status"] == "paused":
        if locked.row["list_id"] is not None:
            await monitored_targets.require_list(connection, locked.row["list_id"])
        due = locked.next_after(datetime.now(UTC))
        await connection.execute(
            "update monitors set status = 'active', paused_reason = null, next_run_at = %s,"
            " updated_at = now() where id = %s",
            (due, monitor_id),
        )
        target = Target("monitor", monitor_id, locked.row["name"])
        await audit.record(connection, actor, "monitor.resumed", target)


async def get(connection: Connection, account_id: UUID, monitor_id: UUID, kept_days: int) -> MonitorView:
    """Return one monitor.

    Args:
        connection: inside or outside a transaction.
        account_id: the owner.
        monitor_id: the monitor.
        kept_days: the installation's retention, for a monitor without its own.

    Raises:
        NotFound: the monitor is unknown, or another account's.
    """
    cursor = await connection.execute(SHOWN + " and m.id = %s", (account_id, monitor_id))
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("monitor")
    return view_of(row, kept_days)


async def exists(connection: Connection, account_id: UUID, monitor_id: UUID) -> bool:
    """Return whether the account has this monitor."""
    cursor = await connection.execute(
        "select from monitors where id = %s and account_id = %s and deleted_at is null",
        (monitor_id, account_id),
    )
    return await cursor.fetchone() is not None


async def list_all(
    connection: Connection, account_id: UUID, kept_days: int, type: TargetType | None = None
) -> list[MonitorView]:
    """Return the account's monitors, newest first, optionally of one type."""
    cursor = await connection.execute(
        SHOWN + " and m.monitor_type = coalesce(%s, m.monitor_type) order by m.id desc", (account_id, type)
    )
    return [view_of(row, kept_days) for row in await cursor.fetchall()]


def _values(plan: MonitorSettings) -> dict[str, Any]:
    chosen = {name: getattr(plan, name) for name in _PLANNED}
    return chosen | {
        "tracked_fields": list(plan.tracked_fields),
        "ignored_fields": list(plan.ignored_fields),
        "tolerance": orjson.dumps(dict(plan.tolerance)).decode(),
        "when": orjson.dumps(list(plan.when)).decode(),
    }


def _calendar(plan: MonitorSettings, created_at: datetime) -> Calendar:
    return Calendar(plan.frequency, plan.cron, plan.timezone, created_at)
