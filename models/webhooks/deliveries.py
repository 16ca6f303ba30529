"""Deliveries: events on their way to endpoints, and the log of the attempts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, LiteralString
from uuid import UUID

import orjson
from psycopg.types.json import Json
from pydantic import Field as Described
from sqlalchemy import JSON, CheckConstraint, Column, DateTime, Index, Integer, Text
from sqlmodel import Field, SQLModel

from database import Connection
from models.errors import NotFound
from models.events import event_types
from models.events.event_data import WebhookTest
from models.events.events import envelope
from models.views import View
from models.webhooks.delivery_work import Delivery
from models.webhooks.delivery_writes import Attempt

DeliveryStatus = Literal["pending", "delivered", "failed"]


class DeliveryRow(SQLModel, table=True):
    """The delivery of an event to one endpoint.

    While it is `pending`, it also has a row in `delivery_work`.
    """

    __tablename__ = "deliveries"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        CheckConstraint("status in ('pending', 'delivered', 'failed')", name="status"),
        Index("ix_deliveries_account_id_id", "account_id", "id"),
        Index("ix_deliveries_endpoint_id_id", "endpoint_id", "id"),
        Index(
            "ix_deliveries_rare_status",
            "account_id",
            "status",
            "id",
            postgresql_where="status <> 'delivered'",
        ),
        Index("ix_deliveries_account_id_event_type_id", "account_id", "event_type", "id"),
        {"postgresql_partition_by": "RANGE (id)"},
    )

    id: UUID = Field(primary_key=True)
    account_id: UUID
    endpoint_id: UUID
    event_id: UUID
    event_type: str = Field(sa_type=Text)
    status: str = Field(sa_type=Text)
    attempts: int
    last_attempt_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    next_attempt_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    created_at: datetime = Field(sa_type=DateTime(timezone=True))  # pyright: ignore[reportArgumentType]


class DeliveryAttempt(SQLModel, table=True):
    """An attempt: its answer, or why there was none."""

    __tablename__ = "delivery_attempts"  # pyright: ignore[reportAssignmentType]
    __table_args__ = ({"postgresql_partition_by": "RANGE (delivery_id)"},)

    delivery_id: UUID = Field(primary_key=True)
    number: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    trigger: str = Field(sa_type=Text)
    started_at: datetime = Field(sa_type=DateTime(timezone=True))  # pyright: ignore[reportArgumentType]
    duration_ms: int
    response_status: int | None
    response_body: str | None = Field(sa_type=Text)
    error: Any = Field(sa_column=Column(JSON))


class AttemptError(View):
    """The reason why an attempt failed."""

    code: str = Described(description="A stable snake_case word.")
    message: str = Described(description="The same in a sentence.")


class AttemptView(View):
    """An attempt at a delivery."""

    attempt: int = Described(description="Its number, from 1.")
    trigger: Literal["scheduled", "manual"] = Described(
        description="Whether it was made by itself or because somebody asked for it."
    )
    started_at: datetime = Described(description="When it began.")
    duration_ms: int = Described(description="How long it took, in milliseconds.")
    response_status: int | None = Described(description="The status of the answer; null if none came.")
    response_body: str | None = Described(description="The first 16 KiB of it; null if none came.")
    error: AttemptError | None = Described(description="Why it was no success; null if it was one.")


class DeliveryView(View):
    """An event for one webhook, and what became of it."""

    id: UUID = Described(description="The delivery's id.")
    webhook_id: UUID = Described(description="The webhook that it is for.")
    event_id: UUID = Described(description="The event's id, sent as `webhook-id`.")
    event_type: str = Described(description="The type of the event.")
    payload: dict[str, Any] | None = Described(
        description="The event as it is sent; null once it is kept no longer."
    )
    status: DeliveryStatus = Described(description="What became of it so far.")
    attempts: int = Described(description="How many attempts there were.")
    response_status: int | None = Described(
        description="The status of the answer to the last attempt; null if none came."
    )
    response_body: str | None = Described(description="The first 16 KiB of that answer; null if none came.")
    last_attempt_at: datetime | None = Described(description="When the last attempt began.")
    next_attempt_at: datetime | None = Described(description="When the next attempt is due; null if none is.")
    created_at: datetime = Described(description="When the event happened.")


class DeliveryDetail(DeliveryView):
    """A delivery with all attempts at it."""

    attempt_log: list[AttemptView] = Described(description="The attempts, the first one first.")


@dataclass(frozen=True, slots=True)
class DeliveryQuery:
    """A page of a list of deliveries.

    Attributes:
        endpoint_id: only deliveries to this webhook.
        status: only deliveries with this status.
        event_type: only deliveries of events of this type.
        before: only deliveries that are older than this one.
        limit: the highest number of deliveries on the page.
    """

    endpoint_id: UUID | None = None
    status: DeliveryStatus | None = None
    event_type: str | None = None
    before: UUID | None = None
    limit: int = 20


async def list_page(
    connection: Connection, account_id: UUID, query: DeliveryQuery
) -> tuple[list[DeliveryView], UUID | None]:
    """Return the account's deliveries, newest first, and the `before` of the next page, if there is one."""
    values = {
        "account_id": account_id, "endpoint_id": query.endpoint_id, "status": query.status,
        "event_type": query.event_type, "id": query.before, "limit": query.limit + 1,
    }  # fmt: skip
    statement: LiteralString = "select * from deliveries where account_id = %(account_id)s"
    statement += " and endpoint_id = %(endpoint_id)s" if query.endpoint_id is not None else ""
    statement += " and status = %(status)s" if query.status is not None else ""
    statement += " and event_type = %(event_type)s" if query.event_type is not None else ""
    statement += " and id < %(id)s" if query.before is not None else ""
    cursor = await connection.execute(statement + " order by id desc limit %(limit)s", values)
    found = await cursor.fetchall()
    rows = found[: query.limit]
    payloads, answers = await _payloads(connection, rows), await _last_answers(connection, rows)
    views = [
        DeliveryView(
            **_pick_view_fields(row),
            payload=payloads.get(row["event_id"]),
            **answers.get(row["id"], _NO_ANSWER),
        )
        for row in rows
    ]
    return views, rows[-1]["id"] if len(found) > query.limit else None


async def get(connection: Connection, account_id: UUID, delivery_id: UUID) -> DeliveryDetail:
    """Return a delivery with the log of its attempts.

    Raises:
        NotFound: the delivery is unknown, or another account's.
    """
    cursor = await connection.execute(
        "select * from deliveries where id = %s and account_id = %s", (delivery_id, account_id)
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("delivery")
    payloads = await _payloads(connection, [row])
    cursor = await connection.execute(
        "select number as attempt, trigger, started_at, duration_ms, response_status, response_body, error"
        " from delivery_attempts where delivery_id = %s order by number",
        (delivery_id,),
    )
    log = [AttemptView(**attempt) for attempt in await cursor.fetchall()]
    last = {name: getattr(log[-1], name) for name in _NO_ANSWER} if log else _NO_ANSWER
    return DeliveryDetail(
        **_pick_view_fields(row), payload=payloads.get(row["event_id"]), **last, attempt_log=log
    )


_NO_ANSWER: dict[str, Any] = {"response_status": None, "response_body": None}


def _pick_view_fields(row: dict[str, Any]) -> dict[str, Any]:
    shown = row | {"webhook_id": row["endpoint_id"]}
    return {name: shown[name] for name in DeliveryView.model_fields if name in shown}


async def _payloads(connection: Connection, rows: Sequence[dict[str, Any]]) -> dict[UUID, dict[str, Any]]:
    """Return the events of deliveries in the form in which they are sent; only their partitions are read."""
    cursor = await connection.execute(
        "select id, type, data::text as data, created_at from events where id = any(%s)",
        ([row["event_id"] for row in rows],),
    )
    return {
        event["id"]: orjson.loads(envelope(event["type"], event["data"], event["created_at"]))
        for event in await cursor.fetchall()
    }


async def _last_answers(connection: Connection, rows: Sequence[dict[str, Any]]) -> dict[UUID, dict[str, Any]]:
    ids = [row["id"] for row in rows]
    cursor = await connection.execute(
        "select a.delivery_id, a.response_status, a.response_body from delivery_attempts a"
        " join unnest(%s::uuid[], %s::int[]) as last (delivery_id, number)"
        "  on last.delivery_id = a.delivery_id and last.number = a.number"
        " where a.delivery_id = any(%s)",
        (ids, [row["attempts"] for row in rows], ids),
    )
    return {row.pop("delivery_id"): row for row in await cursor.fetchall()}


# ---- tests of an endpoint


async def new_test(connection: Connection, account_id: UUID, endpoint_id: UUID) -> Delivery:
    """Return the delivery of a `webhook.test`: it is sent first and stored by `store_test` afterwards.

    Raises:
        NotFound: the account has no such endpoint.
    """
    cursor = await connection.execute(
        "select id as endpoint_id, account_id, url, sealed, time_ordered_id() as event_id,"
        " time_ordered_id() as delivery_id, now() as created_at from endpoints"
        " where id = %s and account_id = %s",
        (endpoint_id, account_id),
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("webhook")
    data = WebhookTest(webhook_id=endpoint_id, message="This is a test.")
    return Delivery(
        **row, attempts=0, tries=0, manual=True,
        event_type=event_types.name_of(data), data=data.model_dump_json(),
    )  # fmt: skip


async def store_test(connection: Connection, sent: Delivery, attempt: Attempt) -> None:
    """Store a test that was sent, with its event; call it in a transaction."""
    error = None if attempt.code is None else {"code": attempt.code, "message": attempt.message}
    await connection.execute(
        "insert into events (id, account_id, type, data, created_at) values (%s, %s, %s, %s, %s)",
        (sent.event_id, sent.account_id, sent.event_type, sent.data, sent.created_at),
    )
    await connection.execute(
        "insert into deliveries (id, account_id, endpoint_id, event_id, event_type, status, attempts,"
        " last_attempt_at, created_at) values (%s, %s, %s, %s, %s, %s, 1, %s, %s)",
        (
            sent.delivery_id, sent.account_id, sent.endpoint_id, sent.event_id, sent.event_type,
            "failed" if error else "delivered", attempt.started_at, sent.created_at,
        ),
    )  # fmt: skip
    await connection.execute(
        "insert into delivery_attempts (delivery_id, number, trigger, started_at, duration_ms,"
        " response_status, response_body, error) values (%s, 1, 'manual', %s, %s, %s, %s, %s)",
        (
            sent.delivery_id, attempt.started_at, attempt.duration_ms, attempt.response_status,
            attempt.response_body, Json(error) if error else None,
        ),
    )  # fmt: skip
