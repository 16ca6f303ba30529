"""Accounts: whoever signs in, and the owner of everything else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast
from uuid import UUID

import psycopg
from email_validator import EmailNotValidError, validate_email
from psycopg.rows import class_row
from sqlalchemy import Column, DateTime, Text
from sqlmodel import Field, SQLModel

from database import Connection
from models import audit
from models.accounts import keys, known_addresses, passwords, sessions
from models.audit import Actor, Target
from models.credits import credits
from models.errors import Conflict, FieldError, Invalid, NotFound
from models.identifiers import new_id

FIRST_EMAIL = "admin@vedette.internal"
FIRST_CREDITS = 100_000
# Any constant that nothing else in the database uses: whoever makes the first account holds it.
_FIRST_ACCOUNT_LOCK = 0x7665_6465_7474_66


class AccountRow(SQLModel, table=True):
    """An account. `email` is stored in lower case."""

    __tablename__ = "accounts"  # pyright: ignore[reportAssignmentType]

    id: UUID = Field(primary_key=True)
    email: str = Field(sa_column=Column(Text, nullable=False, unique=True))
    name: str | None = Field(sa_type=Text)
    password_hash: str = Field(sa_type=Text)
    created_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    updated_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


@dataclass(frozen=True)
class Account:
    """An account as the rest of the code sees it."""

    id: UUID
    email: str
    name: str | None
    created_at: datetime


@dataclass(frozen=True)
class FirstAccount:
    """What the first start prints once: nothing of it can be read again."""

    email: str
    password: str
    api_key: str


def normalised_email(text: str) -> str:
    """`text` as an account's e-mail, in lower case. Local domains are fine: installations have them.

    Raises:
        Invalid: it is not an e-mail address.
    """
    try:
        valid = validate_email(text.strip(), check_deliverability=False, globally_deliverable=False)
    except EmailNotValidError:
        raise Invalid([FieldError("/email", "invalid_email", "This is not an e-mail address.")]) from None
    return valid.normalized.lower()


def login_name(text: str) -> str:
    """The e-mail to look an account up by and to count logins under: what is none is nobody's."""
    try:
        return normalised_email(text)
    except Invalid:
        return text.strip().lower()


class EmailTaken(Conflict):
    """There is an account with this e-mail."""

    def __init__(self) -> None:
        super().__init__("email_taken", "There is an account with this e-mail already.")


async def create_account(
    connection: Connection,
    email: str,
    password_hash: str,
    name: str | None,
    credits_granted: int,
    *,
    actor: Actor | None = None,
    request_id: str | None = None,
    ip: str | None = None,
) -> Account:
    """Create an account with its credits; call it in a transaction.

    Args:
        connection: inside a transaction.
        email: normalised here.
        password_hash: from `passwords.hashed`.
        name: of the person.
        credits_granted: the first balance.
        actor: who creates it, if not the person (its `account_id` is ignored).
        request_id: the request by which the person does.
        ip: the person's address.

    Raises:
        Invalid: the e-mail is not one.
        EmailTaken: there is an account with this e-mail.
    """
    email = normalised_email(email)
    try:
        async with connection.cursor(row_factory=class_row(Account)) as cursor:
            await cursor.execute(
                "insert into accounts (id, email, name, password_hash, created_at, updated_at)"
                " values (%s, %s, %s, %s, now(), now()) returning id, email, name, created_at",
                (new_id(), email, name, password_hash),
            )
            account = cast(Account, await cursor.fetchone())
    except psycopg.errors.UniqueViolation:
        raise EmailTaken from None
    await credits.open_balance(connection, account.id)
    if credits_granted:
        await credits.grant(
            connection, account.id, credits_granted, f"signup/{account.id}", "Sign-up credits"
        )
    person = Actor(account.id, "system", name=email, request_id=request_id, ip=ip)
    creator = replace(actor, account_id=account.id) if actor else person
    await audit.record(connection, creator, "account.created", Target("account", account.id, email))
    return account


async def create_first_account(connection: Connection) -> FirstAccount | None:
    """Create the installation's first account, unless there is one; however many processes try at once.

    It has a generated password, a key with every scope, and 100,000 credits.
    """
    if await any_exists(connection):
        return None
    password = passwords.generated()
    password_hash = await passwords.hashed(password)
    async with connection.transaction():
        await connection.execute("select pg_advisory_xact_lock(%s)", (_FIRST_ACCOUNT_LOCK,))
        if await any_exists(connection):
            return None
        account = await create_account(connection, FIRST_EMAIL, password_hash, "Admin", FIRST_CREDITS)
        actor = Actor(account_id=account.id, kind="system", name="system")
        _, secret = await keys.create_key(connection, actor, "First key", keys.ALL_SCOPES, None)
    return FirstAccount(email=account.email, password=password, api_key=secret)


async def any_exists(connection: Connection) -> bool:
    """Whether the installation has an account."""
    cursor = await connection.execute("select 1 from accounts limit 1")
    return await cursor.fetchone() is not None


async def get(connection: Connection, account_id: UUID) -> Account:
    """The account.

    Raises:
        NotFound: there is none.
    """
    async with connection.cursor(row_factory=class_row(Account)) as cursor:
        await cursor.execute("select id, email, name, created_at from accounts where id = %s", (account_id,))
        account = await cursor.fetchone()
    if account is None:
        raise NotFound("account")
    return account


async def find_by_email(connection: Connection, email: str) -> tuple[Account, str] | None:
    """The account with this normalised e-mail, and its password's hash."""
    cursor = await connection.execute("select * from accounts where email = %s", (email,))
    row = await cursor.fetchone()
    if row is None:
        return None
    account = Account(id=row["id"], email=row["email"], name=row["name"], created_at=row["created_at"])
    return account, row["password_hash"]


async def password_hash_of(connection: Connection, account_id: UUID) -> str:
    """The stored hash of the account's password."""
    cursor = await connection.execute("select password_hash from accounts where id = %s", (account_id,))
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("account")
    return row["password_hash"]


async def store_password(connection: Connection, account_id: UUID, password_hash: str) -> None:
    """Replace the stored hash by a stronger one of the same password."""
    await connection.execute(
        "update accounts set password_hash = %s where id = %s", (password_hash, account_id)
    )


async def change_password(
    connection: Connection,
    actor: Actor,
    password_hash: str,
    *,
    keep_session: UUID | None = None,
    keep_address: str | None = None,
) -> None:
    """Set a new password and end what the old one has opened; call it in a transaction.

    Args:
        connection: inside a transaction.
        actor: who changes the password of whose account.
        password_hash: from `passwords.hashed`.
        keep_session: the only session that goes on.
        keep_address: the only address that stays known, if it is.
    """
    await connection.execute(
        "update accounts set password_hash = %s, updated_at = now() where id = %s",
        (password_hash, actor.account_id),
    )
    ended = await sessions.end_all(connection, actor.account_id, but=keep_session)
    await known_addresses.forget(connection, actor.account_id, but=keep_address)
    await audit.record(
        connection, actor, "account.password_changed", Target("account", actor.account_id),
        {"sessions_ended": ended},
    )  # fmt: skip
