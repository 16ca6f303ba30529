"""The credit ledger: an immutable entry for each change of each balance, and the open holds."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Text,
    UniqueConstraint,
)
from sqlmodel import Field, SQLModel

from database import Connection
from models.append_only import append_only
from models.errors import NotFound

EntryKind = Literal["grant", "hold", "settle", "release", "charge", "refund", "topup"]


class LedgerEntry(SQLModel, table=True):
    """A change of a balance. `number` counts an account's entries from 1, without gaps."""

    __tablename__ = "credit_entries"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        CheckConstraint(
            "kind in ('grant', 'hold', 'settle', 'release', 'charge', 'refund', 'topup')", name="kind"
        ),
        CheckConstraint("balance_after >= 0", name="balance_after_not_negative"),
        CheckConstraint(
            "case when kind in ('hold', 'charge') then amount <= 0 else amount >= 0 end", name="sign"
        ),
        UniqueConstraint("kind", "reference", name="uq_credit_entries_kind_reference"),
        UniqueConstraint("account_id", "number", name="uq_credit_entries_account_id_number"),
    )

    id: UUID = Field(primary_key=True)
    account_id: UUID = Field(sa_column=Column(ForeignKey("accounts.id"), nullable=False))
    number: int = Field(sa_type=BigInteger)
    kind: str = Field(sa_type=Text)
    amount: int = Field(sa_type=BigInteger)
    balance_after: int = Field(sa_type=BigInteger)
    reference: str = Field(sa_type=Text)
    description: str = Field(sa_type=Text)
    key_id: UUID | None
    created_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


class Hold(SQLModel, table=True):
    """Credits set aside for work under way; closed once, by its settlement or its release."""

    __tablename__ = "credit_holds"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        CheckConstraint("amount >= 0", name="amount_not_negative"),
        Index("ix_credit_holds_open", "account_id", postgresql_where="closed_at is null"),
    )

    reference: str = Field(sa_column=Column(Text, primary_key=True))
    account_id: UUID = Field(sa_column=Column(ForeignKey("accounts.id"), nullable=False))
    amount: int = Field(sa_type=BigInteger)
    created_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    closed_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))


append_only(SQLModel.metadata.tables["credit_entries"])


class EntryView(BaseModel, frozen=True):
    """An entry of the ledger as the API shows it."""

    id: UUID = Field(description="The entry's id.")
    kind: EntryKind = Field(description="What changed the balance.")
    amount: int = Field(description="By how much, with its sign: the sum of all amounts is the balance.")
    balance_after: int = Field(description="The balance after it.")
    reference: str = Field(description="What it was for, unique for its kind.")
    description: str = Field(description="The same in words.")
    created_at: datetime = Field(description="When it was booked.")


class Funds(NamedTuple):
    """The credits available to pay for one piece of work.

    Attributes:
        balance: the account's balance.
        charged: the amount already charged for this work; 0 if none.
    """

    balance: int
    charged: int


async def get_funds(connection: Connection, account_id: UUID, reference: str) -> Funds:
    """Return the account's balance and the amount already charged for the work with this reference.

    Raises:
        NotFound: no such account.
    """
    cursor = await connection.execute(
        "select b.balance, coalesce((select -e.amount from credit_entries e where e.kind = 'charge'"
        " and e.reference = %s and e.account_id = b.account_id), 0) as charged"
        " from credit_balances b where b.account_id = %s",
        (reference, account_id),
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("account")
    return Funds(**row)


async def has_hold(connection: Connection, reference: str) -> bool:
    """Return whether credits were held for the work with this reference."""
    cursor = await connection.execute("select from credit_holds where reference = %s", (reference,))
    return await cursor.fetchone() is not None


async def list_entries(
    connection: Connection, account_id: UUID, *, before: int | None = None, limit: int = 20
) -> tuple[list[EntryView], int | None]:
    """Return the account's ledger, newest first, and the `before` of the next page, if there is one."""
    cursor = await connection.execute(
        "select * from credit_entries where account_id = %s and number < %s order by number desc limit %s",
        (account_id, before if before is not None else 2**62, limit + 1),
    )
    rows = await cursor.fetchall()
    page = [EntryView(**{name: row[name] for name in EntryView.model_fields}) for row in rows[:limit]]
    return page, rows[limit - 1]["number"] if len(rows) > limit else None
