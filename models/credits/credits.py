"""Credits: a balance and an append-only ledger whose sum it always is.

Each change is one statement that moves the balance and writes the ledger's entry. It cannot take the balance
below zero, and its reference is unique for its kind: work that is repeated after a crash is paid once. All
functions join the transaction of their connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast
from uuid import UUID

import psycopg
from psycopg.pq import TransactionStatus
from pydantic import BaseModel
from sqlalchemy import BigInteger, CheckConstraint, Column, DateTime, ForeignKey, Index, Text
from sqlmodel import Field, SQLModel

import metrics
from database import Connection
from models import audit
from models.audit import Actor, Target
from models.credits import credit_statements as statements
from models.credits.ledger import EntryKind
from models.errors import Conflict, InsufficientCredits, NotFound
from models.identifiers import new_id
from models.views import View


class Balance(SQLModel, table=True):
    """The credits of an account, and its settings for top-ups. `balance` excludes held credits."""

    __tablename__ = "credit_balances"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        CheckConstraint("balance >= 0", name="balance_not_negative"),
        CheckConstraint("held >= 0", name="held_not_negative"),
        CheckConstraint("used >= 0", name="used_not_negative"),
        Index("ix_credit_balances_topup", "account_id", postgresql_where="topup_enabled"),
        # Updated for every charge: room on the page keeps those updates out of the indexes.
        {"postgresql_with": {"fillfactor": 50, "autovacuum_vacuum_scale_factor": 0.01}},
    )

    account_id: UUID = Field(
        sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True)
    )
    balance: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    held: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    used: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    entries: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    low_balance_threshold: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="100"))
    topup_enabled: bool = Field(sa_column_kwargs={"server_default": "false"})
    topup_threshold: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    topup_amount: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    topup_monthly_cap: int | None = Field(sa_type=BigInteger)
    topup_count: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    topup_month: str | None = Field(sa_type=Text)
    topup_month_total: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    updated_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


@dataclass(frozen=True)
class Change:
    """The effect of a call on the balance.

    Attributes:
        amount: the signed amount in the ledger.
        balance: the balance right after the change.
        replayed: the reference was booked by an earlier call; this call changed nothing.
    """

    amount: int
    balance: int
    replayed: bool


@dataclass(frozen=True, slots=True)
class Booking:
    """A change of a balance to book.

    Attributes:
        account_id: the account.
        amount: how many credits, 0 or more.
        reference: names the work, unique over all accounts; the same reference is booked only once.
        description: for people.
        key_id: the API key whose use is counted.
        run_id: the run whose use is counted, in the same statement, so that its `credits_used` is always the
            sum in the ledger.
    """

    account_id: UUID
    amount: int
    reference: str
    description: str
    key_id: UUID | None = None
    run_id: UUID | None = None


class AutoTopUp(BaseModel, frozen=True):
    """Automatic top-up by `amount` below a balance of `threshold`; at most `monthly_cap` in a UTC month."""

    enabled: bool = Field(description="Whether credits are added by themselves.")
    threshold: int = Field(description="Below this balance they are added.")
    amount: int = Field(description="How many are added at a time.")
    monthly_cap: int | None = Field(
        description="How many are added in a UTC month at most; null for no bound."
    )


class BalanceView(View):
    """The credits of an account as the API shows them."""

    balance: int = Field(description="What can be spent now.")
    held: int = Field(description="What is held for work under way, and no part of the balance.")
    used: int = Field(description="What was spent so far.")
    currency: Literal["credits"] = Field(default="credits", description="The unit of all amounts.")
    low_balance_threshold: int = Field(description="Below this balance the account counts as low.")
    auto_topup: AutoTopUp = Field(description="When credits are added by themselves.")
    updated_at: datetime = Field(description="When the balance last changed.")


async def open_balance(connection: Connection, account_id: UUID) -> None:
    """Create the balance of a new account, 0."""
    await connection.execute(
        "insert into credit_balances (account_id, updated_at) values (%s, now())", (account_id,)
    )


async def grant(connection: Connection, booking: Booking) -> Change:
    """Add credits.

    Raises:
        NotFound: no such account.
    """
    return await _add(connection, "grant", booking)


async def top_up(connection: Connection, booking: Booking) -> Change:
    """Add credits that were bought; as `grant`, under its own kind."""
    return await _add(connection, "topup", booking)


async def charge(connection: Connection, booking: Booking) -> Change:
    """Take credits for work that was delivered. Free work (`amount` 0) is not booked.

    Raises:
        InsufficientCredits: the balance is less than the amount; nothing is charged.
        NotFound: no such account.
        Conflict: the same charge is being booked at this moment in another transaction.
    """
    if booking.amount == 0:
        balance = (await get_balance(connection, booking.account_id)).balance
        return Change(amount=0, balance=balance, replayed=False)
    return await _take(connection, statements.CHARGE, _values("charge", booking))


async def hold(connection: Connection, booking: Booking) -> Change:
    """Set credits aside for work of known size, until `settle` or `release` with the same reference.

    Raises:
        InsufficientCredits: the balance is less than the amount; nothing is held.
        NotFound: no such account.
        Conflict: the same hold is being booked at this moment in another transaction.
    """
    return await _take(connection, statements.HOLD, _values("hold", booking))


async def settle(connection: Connection, booking: Booking) -> Change:
    """End the hold of this reference: spend the amount and give back the rest.

    A repeated call changes nothing.

    Raises:
        Conflict: there is no open hold with this reference, or it is less than the amount.
    """
    return await _close(connection, "settle", booking)


async def release(connection: Connection, account_id: UUID, reference: str, description: str) -> Change:
    """End a hold and give back all of it. A repeated call changes nothing.

    Raises:
        Conflict: there is no open hold with this reference.
    """
    return await _close(connection, "release", Booking(account_id, 0, reference, description))


async def refund(connection: Connection, booking: Booking) -> Change:
    """Give back some or all of the charge with this reference, once.

    Raises:
        Conflict: there is no such charge, or it was for less.
    """
    change = await _book(connection, statements.REFUND, _values("refund", booking))
    if change is None:
        raise Conflict("no_such_charge", "There is no charge with this reference that covers the refund.")
    return change


async def get_balance(connection: Connection, account_id: UUID) -> BalanceView:
    """Return the account's credits.

    Raises:
        NotFound: no such account.
    """
    cursor = await connection.execute("select * from credit_balances where account_id = %s", (account_id,))
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("account")
    return BalanceView(
        auto_topup=AutoTopUp(
            enabled=row["topup_enabled"],
            threshold=row["topup_threshold"],
            amount=row["topup_amount"],
            monthly_cap=row["topup_monthly_cap"],
        ),
        **{name: row[name] for name in ("balance", "held", "used", "low_balance_threshold", "updated_at")},
    )


async def set_low_balance_threshold(connection: Connection, actor: Actor, threshold: int) -> BalanceView:
    """Set the balance below which the account counts as low; call it in a transaction."""
    before = await get_balance(connection, actor.account_id)
    await connection.execute(
        "update credit_balances set low_balance_threshold = %s, updated_at = now() where account_id = %s",
        (threshold, actor.account_id),
    )
    changes = {"low_balance_threshold": {"old": before.low_balance_threshold, "new": threshold}}
    await audit.record(connection, actor, "credits.threshold_changed", Target("credits"), changes)
    return await get_balance(connection, actor.account_id)


async def _add(connection: Connection, kind: EntryKind, booking: Booking) -> Change:
    change = await _book(connection, statements.GRANT, _values(kind, booking))
    if change is None:
        raise NotFound("account")
    return change


async def _take(connection: Connection, statement: str, values: Mapping[str, Any]) -> Change:
    change = await _book(connection, statement, values)
    if change is None:
        left = (await get_balance(connection, values["account"])).balance
        raise InsufficientCredits(values["amount"], left)
    return change


async def _close(connection: Connection, kind: EntryKind, booking: Booking) -> Change:
    change = await _book(connection, statements.SETTLE, _values(kind, booking))
    if change is None:
        raise Conflict("no_such_hold", "There is no open hold with this reference that covers the use.")
    return change


def _values(kind: EntryKind, booking: Booking) -> dict[str, Any]:
    if booking.amount < 0:
        raise ValueError("amounts are given without a sign")
    return {
        "id": new_id(), "kind": kind, "account": booking.account_id, "reference": booking.reference,
        "description": booking.description, "amount": booking.amount,
        "used": booking.amount, "key": booking.key_id, "run": booking.run_id,
    }  # fmt: skip


async def _book(connection: Connection, statement: str, values: Mapping[str, Any]) -> Change | None:
    """Run one of `statements`; return None if it changed nothing, now or before."""
    alone = connection.info.transaction_status is TransactionStatus.IDLE
    try:
        cursor = await connection.execute(cast(Any, statement), values)
    except psycopg.errors.UniqueViolation:
        # Another transaction booked this reference between the check and the entry of this one.
        if not alone:
            raise Conflict("already_booked", "The same change is being made at this moment.") from None
        cursor = await connection.execute(cast(Any, statement), values)
    row = await cursor.fetchone()
    if row is None:
        # Nothing changed: refused, or another transaction booked it while this one waited for the balance.
        return await _book_change(connection, values)
    metrics.count_credits(values["account"], values["kind"], values["amount"])
    return Change(**row)


async def _book_change(connection: Connection, values: Mapping[str, Any]) -> Change | None:
    row = await (await connection.execute(statements.BOOKED, values)).fetchone()
    if row is None:
        return None
    if row["account_id"] != values["account"]:
        raise Conflict("reference_taken", "Another account's change has this reference.")
    return Change(row["amount"], row["balance"], replayed=True)
