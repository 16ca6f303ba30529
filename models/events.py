"""Events: what happened, written in the transaction in which it did, for the endpoints that want to know."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Json
from sqlalchemy import JSON, Column, DateTime, Text
from sqlmodel import Field, SQLModel

from database import Connection

QUEUED_CHANNEL = "deliveries_queued"
"""Notified when deliveries can be claimed: dispatchers wake."""


class Event(SQLModel, table=True):
    """Something that happened, and that an endpoint had asked for. Its id is its `webhook-id`."""

    __tablename__ = "events"  # pyright: ignore[reportAssignmentType]
    __table_args__ = ({"postgresql_partition_by": "RANGE (id)"},)

    id: UUID = Field(primary_key=True)
    account_id: UUID
    type: str = Field(sa_type=Text)
    data: Any = Field(sa_column=Column(JSON, nullable=False))
    created_at: datetime = Field(sa_type=DateTime(timezone=True))  # pyright: ignore[reportArgumentType]


async def emit(connection: Connection, account_id: UUID, event_type: str, data: Mapping[str, Any]) -> UUID:
    """Say that something happened; call it in the transaction in which that became true.

    It becomes a delivery to each endpoint of the account that is active and has asked for it. SQL that ends
    many things at once calls `emit_events` itself, in the same statement.

    Args:
        connection: its transaction is joined.
        account_id: whose event it is.
        event_type: one of `models.event_types`.
        data: as the schema of that type says.

    Returns:
        The event's id.
    """
    cursor = await connection.execute(
        "with new as materialized (select time_ordered_id() as id)"
        " select id, emit_events(array[id], array[%s::uuid], array[%s], array[%s::json]) from new",
        (account_id, event_type, Json(data)),
    )
    row = await cursor.fetchone()
    assert row is not None
    return row["id"]
