"""Accounts: the people who sign in, and the owners of all other objects."""

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
from models.credits.credits import Booking
from models.errors import Conflict, FieldError, Invalid, NotFound
from models.identifiers import new_id

FIRST_EMAIL = "admin@vedette.internal"
FIRST_CREDITS = 100_000
# Any constant that no other lock in the database uses: held while the first account is made.
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
    """An account for use in code, without its password."""

    id: UUID
    email: str
    name: str | None
    created_at: datetime


@dataclass(frozen=True)
class FirstAccount:
    """The credentials that the first start prints once: they cannot be read again."""

    email: str
    password: str
    api_key: str


def normalised_email(text: str) -> str:
    """Return `text` as an account's e-mail, in lower case.

    Local domains are allowed, as installations have them.

    Raises:
        Invalid: it is not an e-mail address.
    """
    try:
        valid = validate_email(text.strip(), check_deliverability=False, globally_deliverable=False)
    except EmailNotValidError:
        raise Invalid([FieldError("/email", "invalid_email", "This is not an e-mail address.")]) from None
    return valid.normalized.lower()


def login_name(text: str) -> str:
    """Return the key for looking up an account and counting logins; an invalid e-mail matches no account."""
    try:
        return normalised_email(text)
    except Invalid:
        return text.strip().lower()


class EmailTaken(Conflict):
    """Another account has this e-mail."""

    def __init__(self) -> None:
        super().__init__("email_taken", "There is an account with this e-mail already.")


@dataclass(frozen=True, slots=True)
class NewAccount:
    """An account to create.

    Attributes:
        email: normalised when it is created.
        password_hash: from `passwords.hash_password`.
        name: the person's name.
        credits: the initial balance.
    """

    email: str
    password_hash: str
    name: str | None = None
    credits: int = 0


async def create_account(
    connection: Connection,
    new: NewAccount,
    *,
    actor: Actor | None = None,
    request_id: str | None = None,
    ip: str | None = None,
) -> Account:
    """Create an account with its credits; call it in a transaction.

    Args:
        connection: inside a transaction.
        new: the account.
        actor: the creator, if it is not the person (its `account_id` is ignored).
        request_id: the person's request.
        ip: the person's address.

    Raises:
        Invalid: the e-mail is not one.
        EmailTaken: there is an account with this e-mail.
    """
    email = normalised_email(new.email)
    try:
        async with connection.cursor(row_factory=class_row(Account)) as cursor:
            await cursor.execute(
                "insert into accounts (id, email, name, password_hash, created_at, updated_at)"
                " values (%s, %s, %s, %s, now(), now()) returning id, email, name, created_at",
                (new_id(), email, new.name, new.password_hash),
            )
            account = cast(Account, await cursor.fetchone())
    except psycopg.errors.UniqueViolation:
        raise EmailTaken from None
    await credits.open_balance(connection, account.id)
    if new.credits:
        booking = Booking(account.id, new.credits, f"signup/{account.id}", "Sign-up credits")
        await credits.grant(connection, booking)
    person = Actor(account.id, "system", name=email, request_id=request_id, ip=ip)
    creator = replace(actor, account_id=account.id) if actor else person
    await audit.record(connection, creator, "account.created", Target("account", account.id, email))
    return account


async def create_first_account(connection: Connection) -> FirstAccount | None:
    """Create the installation's first account if it has none, safely from several processes at once.

    The account has a generated password, a key with every scope, and 100,000 credits.
    """
    if await any_exists(connection):
        return None
    password = passwords.generate_password()
    password_hash = await passwords.hash_password(password)
    async with connection.transaction():
        await connection.execute("select pg_advisory_xact_lock(%s)", (_FIRST_ACCOUNT_LOCK,))
        if await any_exists(connection):
            return None
        account = await create_account(
            connection, NewAccount(FIRST_EMAIL, password_hash, "Admin", credits=FIRST_CREDITS)
        )
        actor = Actor(account_id=account.id, kind="system", name="system")
        _, secret = await keys.create_key(connection, actor, "First key", keys.ALL_SCOPES, None)
    return FirstAccount(email=account.email, password=password, api_key=secret)


async def any_exists(connection: Connection) -> bool:
    """Return whether the installation has an account."""
    cursor = await connection.execute("select 1 from accounts limit 1")
    return await cursor.fetchone() is not None


async def get(connection: Connection, account_id: UUID) -> Account:
    """Return the account.

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
    """Return the account with this normalised e-mail and the hash of its password."""
    cursor = await connection.execute("select * from accounts where email = %s", (email,))
    row = await cursor.fetchone()
    if row is None:
        return None
    account = Account(id=row["id"], email=row["email"], name=row["name"], created_at=row["created_at"])
    return account, row["password_hash"]


async def find_first(connection: Connection) -> Account | None:
    """Return the oldest account."""
    cursor = await connection.execute(
        "select id, email, name, created_at from accounts order by created_at, id limit 1"
    )
    row = await cursor.fetchone()
    return Account(**row) if row else None


async def get_password_hash(connection: Connection, account_id: UUID) -> str:
    """Return the stored hash of the account's password."""
    cursor = await connection.execute("select password_hash from accounts where id = %s", (account_id,))
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("account")
    return row["password_hash"]


async def store_password(connection: Connection, account_id: UUID, password_hash: str) -> None:
    """Replace the stored hash with a stronger one of the same password."""
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
    """Set a new password and end the sessions of the old one; call it in a transaction.

    Args:
        connection: inside a transaction.
        actor: the account, and the one who changes its password.
        password_hash: from `passwords.hash_password`.
        keep_session: the only session that is kept.
        keep_address: the only address that stays known, if it was known.
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
