"""The check of the root key against a canary, a value that is sealed at the first start.

Without it, a wrong key is noticed only when a sealed value is read, after much was sealed with that key.
"""

from __future__ import annotations

import psycopg
from sqlalchemy import CheckConstraint, Column, LargeBinary, SmallInteger
from sqlmodel import Field, SQLModel

from database import Connection
from models.accounts import accounts
from models.installation.key_rotation import CANARY, KEPT, opens, sample_sealed
from sealing import Keyring, root_keys, source_of_keys
from settings import ExitCode, Settings, StartError


class CanaryRow(SQLModel, table=True):
    """The canary, a single row."""

    __tablename__ = "root_key_canary"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (CheckConstraint("id = 1", name="ck_root_key_canary_one"),)

    id: int = Field(sa_column=Column(SmallInteger, primary_key=True, autoincrement=False))
    sealed: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


async def open_keyring(connection: Connection, settings: Settings, *, may_make_key: bool = False) -> Keyring:
    """Load the root keys, and check that one of them opens the canary; the first start makes both.

    Args:
        connection: to a migrated database.
        settings: `secret_key` and `data`.
        may_make_key: make a key if there is none and the installation has no account.

    Raises:
        StartError: the key is missing, too short, or not the one that sealed the data; or the
            database is not migrated.
    """
    try:
        canary = await sample_sealed(connection, CANARY)
        known = bool(canary) or await accounts.any_exists(connection)
    except psycopg.errors.UndefinedTable:
        message = "The database has an older schema than this release. Run `vedette migrate`."
        raise StartError(message, ExitCode.DATABASE) from None
    keyring = Keyring(root_keys(settings, sealed_data_exists=known or not may_make_key))
    if not canary and await is_right(connection, keyring):
        await _make_canary(connection, keyring)
    if not await is_right(connection, keyring):  # another process with another key may have made it first
        raise StartError(
            f"{source_of_keys(settings)} holds another key than the one that the database's values are sealed"
            " with. Nothing was changed.\nPut the former key back. To change it, put the new one before it"
            " (new,former) and run `vedette secrets rotate`.",
            ExitCode.SECRET_KEY,
        )
    return keyring


async def is_right(connection: Connection, keyring: Keyring) -> bool:
    """Return whether a key of the ring opens the canary.

    Without a canary, return whether a key opens some value that is stored for good, or there is no such
    value.
    """
    if canary := await sample_sealed(connection, CANARY):
        return opens(keyring, CANARY, canary[0])
    kept = [(kind, row) for kind in KEPT.values() for row in await sample_sealed(connection, kind)]
    return not kept or any(opens(keyring, kind, row) for kind, row in kept)


async def _make_canary(connection: Connection, keyring: Keyring) -> None:
    sealed = keyring.seal(CANARY.purpose, b"canary", CANARY.context.format(id=1))
    await connection.execute(
        "insert into root_key_canary (id, sealed) values (1, %s) on conflict do nothing", (sealed,)
    )
