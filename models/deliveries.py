"""Deliveries: an event on its way to an endpoint, and the log of the attempts to bring it there."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import JSON, CheckConstraint, Column, DateTime, Index, Integer, Text
from sqlmodel import Field, SQLModel


class DeliveryRow(SQLModel, table=True):
    """An event for one endpoint. While it is `pending`, it is a row of `delivery_work` too."""

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
    """One attempt: what was answered, or why nothing was."""

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
