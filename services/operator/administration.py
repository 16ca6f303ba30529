"""The operator's actions at the command line, straight on the database, audited as done by `operator`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast, get_args
from uuid import UUID

from database import Connection, Database
from models import audit
from models.accounts import accounts, keys, passwords, suppressions
from models.accounts.accounts import Account, NewAccount
from models.accounts.suppressions import ErasedAnswer
from models.audit import Actor, Target
from models.credits import credits
from models.credits.credits import Booking
from models.errors import FieldError, Invalid
from models.identifiers import new_id, parse_id
from models.installation import key_rotation, processes, root_key
from providers.registry import KINDS
from sealing import Keyring
from services.operator.connections import check_database
from settings import ExitCode, Settings, StartError

_MOST_NAME_CHARACTERS = 200  # as in the API


@dataclass(frozen=True)
class CreatedAccount:
    """A new account. `password` is None if the caller chose it."""

    id: str
    email: str
    credits: int
    password: str | None


@dataclass(frozen=True)
class CreatedKey:
    """A new API key; `key` is shown this once."""

    id: str
    account: str
    name: str
    scopes: str
    key: str


@dataclass(frozen=True)
class SuppressionChange:
    """The suppression of a person: its current state, and whether it changed."""

    suppressed: bool
    changed: bool


@dataclass(frozen=True)
class ResealCounts:
    """The counts for one kind of sealed values: resealed ones, and those that no key of the ring opens."""

    resealed: int
    unreadable: int


@contextlib.asynccontextmanager
async def open_database(database_url: str) -> AsyncGenerator[Database]:
    """Open a database for the block; see `check_database` for the conditions."""
    await check_database(database_url)
    database = Database(database_url, name="vedette command", size=1)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


@contextlib.asynccontextmanager
async def _transaction(database_url: str) -> AsyncGenerator[Connection]:
    async with open_database(database_url) as database, database.transaction() as connection:
        yield connection


async def open_keyring(database_url: str, settings: Settings, *, may_make_key: bool) -> Keyring:
    """Load the keyring, and check that it opens the database's values; see `models.installation.root_key`."""
    async with open_database(database_url) as database, database.connection() as connection:
        return await root_key.open_keyring(connection, settings, may_make_key=may_make_key)


async def create_account(
    database_url: str, email: str, *, name: str | None, granted: int, password: str | None
) -> CreatedAccount:
    """Create an account; without a password it gets a generated one.

    Raises:
        DomainError: the e-mail or the password is invalid, or the e-mail is taken.
    """
    name = None if name is None else checked_name(name)
    password, generated = _checked_or_generated(password)
    hashed = await passwords.hash_password(password)
    async with _transaction(database_url) as connection:
        account = await accounts.create_account(
            connection, NewAccount(email, hashed, name, credits=granted), actor=operator(new_id())
        )
    return CreatedAccount(str(account.id), account.email, granted, generated)


async def create_key(
    database_url: str, email: str, *, name: str, scopes: Sequence[str] | None, days: int | None
) -> CreatedKey:
    """Create a key for the account with this e-mail.

    Args:
        database_url: of a migrated database.
        email: the account.
        name: the purpose of the key.
        scopes: its permissions; all but `keys` when None.
        days: the days until it expires.

    Raises:
        DomainError: the account or a scope does not exist.
    """
    unknown = sorted(set(scopes or ()) - set(get_args(keys.Scope)))
    if unknown:
        text = f"There is no scope {unknown[0]}; there are {', '.join(get_args(keys.Scope))}."
        raise Invalid([FieldError("/scopes", "unknown_scope", text)])
    name = checked_name(name)
    granted = cast("list[Any]", list(scopes)) if scopes else keys.DEFAULT_SCOPES
    expires_at = datetime.now(UTC) + timedelta(days=days) if days else None
    async with _transaction(database_url) as connection:
        account = await find_account(connection, email)
        key, secret = await keys.create_key(connection, operator(account.id), name, granted, expires_at)
    return CreatedKey(str(key.id), account.email, key.name, " ".join(key.scopes), secret)


@dataclass(frozen=True)
class ResetPassword:
    """An account with a new password. `password` is None if the caller chose it."""

    email: str
    password: str | None


@dataclass(frozen=True)
class CreditGrant:
    """Credits that an operator granted.

    `repeated`: the reference was used before, and nothing was added now.
    """

    account: str
    amount: int
    balance: int
    reference: str
    repeated: bool


async def reset_password(database_url: str, email: str, *, password: str | None) -> ResetPassword:
    """Set a new password for an account, a generated one by default, and end all its sessions.

    Raises:
        DomainError: the account does not exist, or the password is invalid.
    """
    password, generated = _checked_or_generated(password)
    hashed = await passwords.hash_password(password)
    async with _transaction(database_url) as connection:
        account = await find_account(connection, email)
        await accounts.change_password(connection, operator(account.id), hashed)
    return ResetPassword(account.email, generated)


async def revoke_key(database_url: str, key_id: str, *, permanent: bool) -> None:
    """Revoke a key at once; with `permanent` remove its record too.

    Raises:
        Invalid: the key does not exist.
    """
    parsed = parse_id(key_id)
    async with _transaction(database_url) as connection:
        owner = None if parsed is None else await keys.find_owner(connection, parsed)
        if parsed is None or owner is None:
            raise Invalid([FieldError("/key", "not_found", "There is no such key.")])
        await keys.revoke(connection, operator(owner), parsed, keys.ALL_SCOPES, permanent=permanent)


async def grant_credits(
    database_url: str, email: str, amount: int, *, reason: str, reference: str | None
) -> CreditGrant:
    """Add credits to an account. With a reference of the caller's, repetitions add nothing.

    Raises:
        DomainError: the account does not exist, or another account's grant has the reference.
    """
    reference = f"grant/{reference or new_id()}"
    async with _transaction(database_url) as connection:
        account = await find_account(connection, email)
        change = await credits.grant(connection, Booking(account.id, amount, reference, reason))
        if not change.replayed:
            target = Target("credits", name=reference)
            changes = {"amount": amount, "reason": reason}
            await audit.record(connection, operator(account.id), "credits.granted", target, changes)
    return CreditGrant(account.email, change.amount, change.balance, reference, change.replayed)


def operator(account_id: UUID) -> Actor:
    """Return the actor for commands that change an account."""
    return Actor(account_id=account_id, kind="operator", name="operator")


async def find_account(connection: Connection, email: str) -> Account:
    """Return the account with an e-mail address.

    Raises:
        DomainError: the account does not exist, or this is no e-mail address.
    """
    found = await accounts.find_by_email(connection, accounts.normalised_email(email))
    if found is None:
        raise Invalid([FieldError("/account", "not_found", "There is no such account.")])
    return found[0]


def checked_name(name: str) -> str:
    """Return a name without surrounding space.

    Raises:
        Invalid: it does not have 1 to 200 characters.
    """
    if not 1 <= len(name := name.strip()) <= _MOST_NAME_CHARACTERS:
        message = f"A name has 1 to {_MOST_NAME_CHARACTERS} characters."
        raise Invalid([FieldError("/name", "invalid_length", message)])
    return name


def _checked_or_generated(password: str | None) -> tuple[str, str | None]:
    """Return the password to set, and again the same if it was generated here."""
    if password is None:
        generated = passwords.generate_password()
        return generated, generated
    if not passwords.MIN_LENGTH <= len(password) <= passwords.MAX_LENGTH:
        limits = f"{passwords.MIN_LENGTH} to {passwords.MAX_LENGTH}"
        raise Invalid([FieldError("/password", "invalid_length", f"A password has {limits} characters.")])
    return password, None


async def suppress_person(
    database_url: str, keyring: Keyring, person: str, *, lift: bool
) -> SuppressionChange:
    """Suppress all lookups about a person, or allow them again.

    Args:
        database_url: of a migrated database.
        keyring: the keys that hash the person.
        person: an e-mail address or a phone number with its country code.
        lift: remove the person from the list.

    Raises:
        DomainError: `person` is neither.
    """
    identifier = _identifier(person)
    async with _transaction(database_url) as connection:
        change = suppressions.remove if lift else suppressions.add
        return SuppressionChange(not lift, await change(connection, keyring, identifier))


async def erase_person(database_url: str, keyring: Keyring, person: str) -> list[ErasedAnswer]:
    """Delete the stored answers of sources about a person, and return what was deleted.

    Processes drop their own copies within a minute. Data that accounts have stored themselves stays.

    Args:
        database_url: of a migrated database.
        keyring: the keys that seal the answers.
        person: an e-mail address or a phone number with its country code.

    Raises:
        DomainError: `person` is neither.
    """
    identifier = _identifier(person)
    async with _transaction(database_url) as connection:
        return await suppressions.erase(connection, keyring, KINDS, identifier)


async def reseal(database_url: str, keyring: Keyring) -> dict[str, ResealCounts]:
    """Seal all permanently stored values with the first key of the ring; a repetition finds nothing to do.

    Each batch is a transaction of its own, so that the service can run meanwhile.

    Raises:
        StartError: a serving process lacks the first key, and could no longer open the values.
    """
    done: dict[str, ResealCounts] = {}
    async with open_database(database_url) as database:
        async with database.connection() as connection:
            lacking = await processes.find_lacking(connection, keyring.fingerprints[0])
        if lacking:
            raise StartError(
                "The first key is to be held by every process that serves. These do not hold it: "
                f"{', '.join(lacking)}. Nothing was changed.\n"
                "Start each of them again with the new key before the old one, then rotate again.",
                ExitCode.SECRET_KEY,
            )
        for noun, kept in key_rotation.KEPT.items():
            resealed = unreadable = 0
            after: key_rotation.RowKey | None = kept.start
            while after is not None:
                async with database.transaction() as connection:
                    batch = await key_rotation.reseal_batch(connection, keyring, kept, after)
                resealed += batch.resealed
                unreadable += batch.unreadable
                after = batch.last
            done[noun] = ResealCounts(resealed, unreadable)
    return done


def _identifier(person: str) -> str:
    kind = "email" if "@" in person else "phone"
    return KINDS[kind].normalise(person, f"/{kind}").text
