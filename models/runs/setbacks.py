"""Setbacks: runs that our code cannot execute are set aside, for longer and longer, for another build."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.types.json import Json
from sqlalchemy import JSON, Column, DateTime, ForeignKey
from sqlmodel import Field, SQLModel

from database import Connection
from models.runs.run_work import LOCKED_CLAIMS

_FIRST_SECONDS, _LONGEST_SECONDS = 60, 3600
_PATIENCE = timedelta(hours=24)


class VersionAside(SQLModel, table=True):
    """A version of a workflow that our code cannot read, or with whose runs it fails.

    Attributes:
        setbacks: when that began, the number of attempts, and the builds that made them.
        aside_until: the time until which it is not tried again.
    """

    __tablename__ = "versions_aside"  # pyright: ignore[reportAssignmentType]

    automation_id: UUID = Field(
        sa_column=Column(ForeignKey("automations.id", ondelete="CASCADE"), primary_key=True)
    )
    version: int = Field(primary_key=True)
    setbacks: Any = Field(sa_column=Column(JSON, nullable=False))
    aside_until: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


def _after_another(setbacks: Mapping[str, Any] | None, build: str) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat()
    before = setbacks or {"since": now, "times": 0, "builds": []}
    builds = sorted({*before["builds"], build})
    return {"since": before["since"], "times": before["times"] + 1, "builds": builds}


def _seconds_aside(setbacks: Mapping[str, Any]) -> float:
    return min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** min(20, setbacks["times"] - 1))


def _is_hopeless(setbacks: Mapping[str, Any]) -> bool:
    """Return whether at least two builds have failed over more than a day."""
    since = datetime.fromisoformat(setbacks["since"])
    return len(setbacks["builds"]) > 1 and datetime.now(UTC) - since > _PATIENCE


async def set_run_aside(connection: Connection, run_id: UUID, claim_id: UUID, build: str) -> bool:
    """Queue a run with which our code has failed again after a minute, then after longer and longer.

    Returns:
        Whether it is hopeless: two builds have failed over a day. Then it stays with its carrier, to be
        ended.
    """
    mine = (run_id, claim_id)
    cursor = await connection.execute(
        "select setbacks from run_work where run_id = %s and claim_id = %s", mine
    )
    row = await cursor.fetchone()
    if row is None:
        return False
    setbacks = _after_another(row["setbacks"], build)
    if _is_hopeless(setbacks):
        return True
    await connection.execute(
        "update run_work set status = 'queued', carrier = null, claim_id = null, wake_at = null,"
        " setbacks = %s, available_at = clock_timestamp() + make_interval(secs => %s)"
        " where run_id = %s and claim_id = %s",
        (Json(setbacks), _seconds_aside(setbacks), *mine),
    )
    return False


async def note_trial(connection: Connection, run_id: UUID, claim_id: UUID, build: str) -> bool:
    """Record that a run with which workers were lost is tried alone; if it loses another, the record remains.

    Progress of the run removes the record. `end_shift` copies it to the other suspects of the version.

    Returns:
        Whether it is hopeless: two builds have failed over a day. Then it must not be tried, but ended.
    """
    mine = (run_id, claim_id)
    cursor = await connection.execute(
        "select setbacks from run_work where run_id = %s and claim_id = %s", mine
    )
    row = await cursor.fetchone()
    if row is None:
        return False
    if row["setbacks"] is not None and _is_hopeless(row["setbacks"]):
        return True
    await connection.execute(
        "update run_work set setbacks = %s where run_id = %s and claim_id = %s",
        (Json(_after_another(row["setbacks"], build)), *mine),
    )
    return False


async def set_version_aside(
    connection: Connection, automation_id: UUID, version: int, claims: Mapping[UUID, UUID], build: str
) -> bool:
    """Queue runs of a version with which our code fails again after a while.

    Args:
        connection: outside a transaction.
        automation_id: the workflow.
        version: its version.
        claims: by run, its `claim_id`. Later runs of the version follow when they are claimed.
        build: the build that has failed with it.

    Returns:
        Whether it is hopeless: two builds have failed over a day, and no run of it has advanced meanwhile.
        Then these runs stay with their carrier, to be ended.
    """
    async with connection.transaction():
        cursor = await connection.execute(
            "select setbacks, aside_until > clock_timestamp() as stands from versions_aside"
            " where automation_id = %s and version = %s for update",
            (automation_id, version),
        )
        row = await cursor.fetchone()
        if row is None or not row["stands"]:
            setbacks = _after_another(row and row["setbacks"], build)
            if _is_hopeless(setbacks):
                return True
            await connection.execute(
                "insert into versions_aside (automation_id, version, setbacks, aside_until)"
                " values (%s, %s, %s, clock_timestamp() + make_interval(secs => %s))"
                " on conflict (automation_id, version)"
                " do update set setbacks = excluded.setbacks, aside_until = excluded.aside_until",
                (automation_id, version, Json(setbacks), _seconds_aside(setbacks)),
            )
        await put_aside(connection, automation_id, version, claims)
    return False


async def put_aside(
    connection: Connection, automation_id: UUID, version: int, claims: Mapping[UUID, UUID]
) -> None:
    """Queue runs of a version that is set aside, untried, for the time at which it is tried again."""
    await connection.execute(
        "update run_work w set status = 'queued', carrier = null, claim_id = null, wake_at = null,"
        " available_at = v.aside_until"
        f" from versions_aside v, {LOCKED_CLAIMS}"
        " where v.automation_id = %s and v.version = %s and w.run_id = locked.run_id",
        (list(claims), list(claims.values()), automation_id, version),
    )


async def is_version_aside(connection: Connection, automation_id: UUID, version: int) -> bool:
    """Return whether a version is set aside now."""
    cursor = await connection.execute(
        "select from versions_aside where automation_id = %s and version = %s"
        " and aside_until > clock_timestamp()",
        (automation_id, version),
    )
    return bool(cursor.rowcount)


async def take_version_back(connection: Connection, automation_id: UUID, version: int) -> None:
    """Delete the record that a version was set aside, because a run of it has advanced."""
    await connection.execute(
        "delete from versions_aside where automation_id = %s and version = %s", (automation_id, version)
    )


async def count_aside(connection: Connection) -> int:
    """Count the versions that are set aside, or have a run that is."""
    cursor = await connection.execute(
        "select count(*)::int as n from ("
        " select automation_id, version from versions_aside where aside_until > now()"
        " union select automation_id, version from run_work where setbacks is not null or lost > 2) as aside"
    )
    row = await cursor.fetchone()
    return row["n"] if row else 0
