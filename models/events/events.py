"""Events: written in the transaction in which they happen, for the endpoints that subscribe to them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from sqlalchemy import JSON, Column, DateTime, Text
from sqlmodel import Field, SQLModel

from database import Connection
from models.events import event_types
from models.events.event_data import EventData

QUEUED_CHANNEL = "deliveries_queued"
"""Notified when deliveries can be claimed: dispatchers wake."""


class Event(SQLModel, table=True):
    """An event to which an endpoint is subscribed. Its id is its `webhook-id`."""

    __tablename__ = "events"  # pyright: ignore[reportAssignmentType]
    __table_args__ = ({"postgresql_partition_by": "RANGE (id)"},)

    id: UUID = Field(primary_key=True)
    account_id: UUID
    type: str = Field(sa_type=Text)
    data: Any = Field(sa_column=Column(JSON, nullable=False))
    created_at: datetime = Field(sa_type=DateTime(timezone=True))  # pyright: ignore[reportArgumentType]


def envelope(event_type: str, data: str, created_at: datetime) -> bytes:
    """Return the body that is sent for an event: the same bytes on each attempt.

    Args:
        event_type: one of `models.events.event_types`.
        data: of the event, as JSON.
        created_at: the time of the event.
    """
    moment = created_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return orjson.dumps({"event": event_type, "data": orjson.loads(data), "created_at": moment})


class Emitted(NamedTuple):
    """An event that was emitted, and the number of webhooks that get it; with 0 it is not stored."""

    id: UUID
    webhooks: int


async def emit(connection: Connection, account_id: UUID, data: EventData) -> UUID:
    """Emit an event; call it in the transaction that makes it true.

    Each active endpoint of the account that is subscribed to it gets a delivery. SQL that ends many things at
    once calls `emit_events` itself, in the same statement.

    Args:
        connection: its transaction is joined.
        account_id: the owner of the event.
        data: its class is the data of one of `models.events.event_types`.

    Returns:
        The event's id.
    """
    return (await emit_counted(connection, account_id, data)).id


async def emit_counted(connection: Connection, account_id: UUID, data: EventData) -> Emitted:
    """Emit an event as `emit` does, and return the number of webhooks that get it."""
    cursor = await connection.execute(
        "with new as materialized (select time_ordered_id() as id)"
        " select id, emit_events(array[id], array[%s::uuid], array[%s], array[%s::json]) as webhooks"
        " from new",
        (account_id, event_types.name_of(data), data.model_dump_json()),
    )
    row = await cursor.fetchone()
    assert row is not None
    return Emitted(**row)


async def emit_all(connection: Connection, told: Sequence[tuple[UUID, EventData]]) -> None:
    """Emit several events, each to its account, as `emit` does."""
    await connection.execute(
        "select emit_events(array_agg(time_ordered_id()), array_agg(account_id), array_agg(type),"
        " array_agg(data)) from unnest(%s::uuid[], %s::text[], %b::json[]) as told (account_id, type, data)",
        (
            [account_id for account_id, _ in told],
            [event_types.name_of(data) for _, data in told],
            [data.model_dump_json() for _, data in told],
        ),
    )


async def erase(connection: Connection, identifier: str) -> int:
    """Delete the events of lookups of a person, and their deliveries. Return the number of events.

    Args:
        connection: inside or outside a transaction.
        identifier: from `models.accounts.suppressions`.
    """
    cursor = await connection.execute(
        "with erased as (delete from events where type = 'lookup.completed'"
        "  and lower(data->>'query') = %s returning id"
        "), work as (delete from delivery_work where event_id in (select id from erased)"
        "), gone as (delete from deliveries where event_id in (select id from erased) returning id"
        "), log as (delete from delivery_attempts where delivery_id in (select id from gone))"
        " select count(*)::int as n from erased",
        (identifier,),
    )
    row = await cursor.fetchone()
    return row["n"] if row else 0
