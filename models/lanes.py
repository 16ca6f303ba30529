"""Lanes: the queues of runs, and whose turn among them it is."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    SmallInteger,
    UniqueConstraint,
)
from sqlmodel import Field, SQLModel

INTERACTIVE, BULK = 2, 4
"""The priorities of runs that someone waits for, and of those that came in bulk or by the clock."""


class Lane(SQLModel, table=True):
    """A queue of runs that may share a batch: one workflow version at one priority.

    Attributes:
        aside_until: our code cannot serve it; until then it is not tried again.
        setbacks: since when that is so, how often it was tried, and by which builds.
    """

    __tablename__ = "lanes"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (UniqueConstraint("automation_id", "version", "priority"),)

    id: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    account_id: UUID = Field(sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False))
    automation_id: UUID = Field(
        sa_column=Column(ForeignKey("automations.id", ondelete="CASCADE"), nullable=False)
    )
    version: int
    priority: int = Field(sa_type=SmallInteger)
    served_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    runs_total: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    aside_until: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    setbacks: Any = Field(sa_column=Column(JSON))


class Tenant(SQLModel, table=True):
    """When the dispatchers last served an account: whoever has waited longest goes first."""

    __tablename__ = "tenants"  # pyright: ignore[reportAssignmentType]

    account_id: UUID = Field(
        sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True)
    )
    served_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
