"""Idempotency keys: the stored answer of a request, so that a repeated request gets the same answer.

A request claims its key in a transaction of its own, works, and stores its answer. Claims have a lease. If a
process dies in the middle, the next repeat takes over the claim with the same claim id, so that charges and
starts under that id do not happen twice. The same holds after an error that leaves open whether the work was
done.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Column, DateTime, ForeignKey, Index, LargeBinary, Text
from sqlmodel import Field, SQLModel

from database import Connection
from models.errors import Conflict, DomainError
from models.identifiers import new_id

KEPT_HOURS = 24
LEASE_SECONDS = 60


class IdempotencyKey(SQLModel, table=True):
    """A request that carried a key; it is under way while `answer` is null."""

    __tablename__ = "idempotency_keys"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        Index("uq_idempotency_keys_request", "account_id", "key", "method", "path", unique=True),
        Index("ix_idempotency_keys_expires_at", "expires_at"),
    )

    id: UUID = Field(primary_key=True)
    account_id: UUID = Field(sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False))
    key: str = Field(sa_type=Text)
    method: str = Field(sa_type=Text)
    path: str = Field(sa_type=Text)
    fingerprint: bytes = Field(sa_type=LargeBinary)
    holder: UUID
    leased_until: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    answer: bytes | None = Field(sa_type=LargeBinary)
    expires_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


@dataclass(frozen=True)
class Request:
    """The request that a key belongs to.

    Attributes:
        account_id: the account that sent the request.
        key: the header's value.
        method: the HTTP method.
        path: the URL's path, with its ids.
        fingerprint: a hash of query and body.
    """

    account_id: UUID
    key: str
    method: str
    path: str
    fingerprint: bytes


@dataclass(frozen=True)
class Claim:
    """The right to do the work of a key.

    Attributes:
        id: stays the same when the claim is taken over; charges and starts are named by it.
        holder: identifies the current holder; a holder that lost its lease can no longer store an answer.
        answer: the sealed answer, if the work was done before.
    """

    id: UUID
    holder: UUID
    answer: bytes | None


class KeyReused(DomainError):
    """The key was used before, with another request."""

    def __init__(self) -> None:
        super().__init__(
            "idempotency_key_reused", "This Idempotency-Key was used with another query or body."
        )


class InProgress(Conflict):
    """The first request with this key is still running."""

    def __init__(self) -> None:
        super().__init__("idempotency_in_progress", "The first request with this key is still at work.")


_CLAIM = """
insert into idempotency_keys as k
    (id, account_id, key, method, path, fingerprint, holder, leased_until, expires_at)
values (%(id)s, %(account)s, %(key)s, %(method)s, %(path)s, %(fingerprint)s, %(holder)s,
    now() + make_interval(secs => %(lease)s), now() + make_interval(hours => %(hours)s))
on conflict (account_id, key, method, path) do update
set id = case when k.expires_at <= now() then excluded.id else k.id end,
    fingerprint = excluded.fingerprint, holder = excluded.holder, leased_until = excluded.leased_until,
    answer = null, expires_at = excluded.expires_at
where k.expires_at <= now()
   or (k.answer is null and k.leased_until <= now() and k.fingerprint = excluded.fingerprint)
returning id, holder, answer
"""


async def claim(connection: Connection, request: Request) -> Claim:
    """Claim the work of a key, or return its stored answer. It commits: call it outside a transaction.

    Raises:
        KeyReused: the key came with another request.
        InProgress: the first request is still running.
    """
    holder = new_id()
    values = {
        "id": holder, "holder": holder, "account": request.account_id, "key": request.key,
        "method": request.method, "path": request.path, "fingerprint": request.fingerprint,
        "lease": LEASE_SECONDS, "hours": KEPT_HOURS,
    }  # fmt: skip
    while True:
        row = await (await connection.execute(_CLAIM, values)).fetchone()
        if row is not None:
            return Claim(**row)
        cursor = await connection.execute(
            "select id, holder, answer, fingerprint from idempotency_keys"
            " where account_id = %s and key = %s and method = %s and path = %s",
            (request.account_id, request.key, request.method, request.path),
        )
        row = await cursor.fetchone()
        if row is None:
            continue  # deleted between the two statements: claim again
        if row.pop("fingerprint") != request.fingerprint:
            raise KeyReused
        if row["answer"] is None:
            raise InProgress
        return Claim(**row)


async def store(connection: Connection, claim: Claim, answer: bytes) -> None:
    """Store the sealed answer for repeated requests."""
    await connection.execute(
        "update idempotency_keys set answer = %s where id = %s and holder = %s",
        (answer, claim.id, claim.holder),
    )


async def give_up(connection: Connection, claim: Claim) -> None:
    """Delete the claim of a request that had no effect, so that a repeat can try again."""
    await connection.execute(
        "delete from idempotency_keys where id = %s and holder = %s and answer is null",
        (claim.id, claim.holder),
    )


async def release(connection: Connection, claim: Claim) -> None:
    """End the lease, so that a repeat takes over the claim at once and finds work done under its id."""
    await connection.execute(
        "update idempotency_keys set leased_until = now() where id = %s and holder = %s and answer is null",
        (claim.id, claim.holder),
    )


async def forget_expired(connection: Connection) -> None:
    """Delete the answers that have expired."""
    await connection.execute("delete from idempotency_keys where expires_at < now()")
