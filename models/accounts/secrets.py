"""Secrets of an account: webhook steps read them as `{{ secrets.NAME }}`; no answer ever shows a value."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import Column, DateTime, ForeignKey, LargeBinary, Text
from sqlmodel import Field, SQLModel

from database import Connection
from language.findings import escape_name
from models import audit
from models.audit import Actor, Target
from models.errors import Conflict, FieldError, Invalid, NotFound
from sealing import Keyring

MAX_SECRETS = 1000
MAX_NAME_LENGTH = 64
MAX_VALUE_LENGTH = 10_000
MAX_GIVEN = 50
"""The highest number of secrets that can come with a workflow."""
NAME = re.compile("^[A-Za-z_][A-Za-z0-9_]*$")
"""Names that an expression can read without quotes, as in `{{ secrets.NAME }}`."""

_PURPOSE = "secrets"


class Secret(SQLModel, table=True):
    """The name and the sealed value of a secret."""

    __tablename__ = "secrets"  # pyright: ignore[reportAssignmentType]

    account_id: UUID = Field(
        sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True)
    )
    name: str = Field(sa_column=Column(Text, primary_key=True))
    sealed: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    created_at: datetime = Field(sa_type=DateTime(timezone=True))  # pyright: ignore[reportArgumentType]
    updated_at: datetime = Field(sa_type=DateTime(timezone=True))  # pyright: ignore[reportArgumentType]


class SecretUse(BaseModel, frozen=True):
    """A workflow whose current version names a secret."""

    id: UUID = Field(description="The workflow's id.")
    name: str = Field(description="Its name.")


class SecretView(BaseModel, frozen=True):
    """A secret as the API shows it: never its value."""

    name: str = Field(description="The secret's name.")
    created_at: datetime = Field(description="When it was first stored.")
    updated_at: datetime = Field(description="When its value was last replaced.")
    used_by: list[SecretUse] = Field(description="The workflows whose current version names it.")


@dataclass(frozen=True)
class StoredSecret:
    """The time when a secret was created, and whether this call created it."""

    created_at: datetime
    is_new: bool


async def put_secret(
    connection: Connection, keyring: Keyring, actor: Actor, name: str, value: str
) -> StoredSecret:
    """Store a secret, or replace its value; call it in a transaction.

    Raises:
        Conflict: the account has 1,000 secrets.
    """
    sealed = keyring.seal(_PURPOSE, value.encode(), _context(actor.account_id, name))
    cursor = await connection.execute(
        "insert into secrets as s (account_id, name, sealed, created_at, updated_at)"
        " values (%s, %s, %s, now(), now()) on conflict (account_id, name)"
        " do update set sealed = excluded.sealed, updated_at = excluded.updated_at"
        # xmax is 0 only in a row that this statement inserted.
        " returning s.created_at, s.xmax = 0 as is_new,"
        " (select count(*)::int from secrets where account_id = s.account_id) as others",
        (actor.account_id, name, sealed),
    )
    row = cast(dict[str, Any], await cursor.fetchone())
    if row["is_new"] and row["others"] >= MAX_SECRETS:
        raise Conflict("too_many_secrets", f"An account has at most {MAX_SECRETS} secrets; delete some.")
    action = "secret.created" if row["is_new"] else "secret.replaced"
    await audit.record(connection, actor, action, Target("secret", name=name))
    return StoredSecret(row["created_at"], row["is_new"])


def read_given(value: Any) -> dict[str, str]:
    """Read the secrets that come with a workflow: `{NAME: value}`, or null for none.

    Raises:
        Invalid: names each secret that cannot be stored, without its value.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Invalid([FieldError("/secrets", "wrong_type", "This is an object: {NAME: value}.")])
    given = cast(dict[str, Any], value)
    if len(given) > MAX_GIVEN:
        raise Invalid([FieldError("/secrets", "too_many_items", f"At most {MAX_GIVEN} secrets at a time.")])
    errors: list[FieldError] = []
    for name, text in given.items():
        pointer = f"/secrets/{escape_name(name)}"
        if not NAME.fullmatch(name) or len(name) > MAX_NAME_LENGTH:
            message = f"A name has up to {MAX_NAME_LENGTH} letters, digits and _, no digit first."
            errors.append(FieldError("/secrets", "invalid_format", message))
        elif not isinstance(text, str):
            errors.append(FieldError(pointer, "wrong_type", "The value is a text."))
        elif not text:
            errors.append(FieldError(pointer, "too_short", "The value is empty."))
        elif len(text) > MAX_VALUE_LENGTH:
            message = f"A value has {MAX_VALUE_LENGTH} characters at most."
            errors.append(FieldError(pointer, "too_long", message))
    if errors:
        raise Invalid(errors)
    return given


async def add(connection: Connection, keyring: Keyring, actor: Actor, given: Mapping[str, str]) -> None:
    """Store new secrets, all or none; call it in a transaction.

    Raises:
        Conflict: `secret_exists` if the account has one of these names, or it has too many secrets.
    """
    taken = await list_names(connection, actor.account_id) & given.keys()
    for name in sorted(given.keys() - taken):
        if not (await put_secret(connection, keyring, actor, name, given[name])).is_new:
            taken |= {name}
    if taken:
        raise Conflict(
            "secret_exists",
            f"The account has {', '.join(sorted(taken))} already: leave it out to use what is stored, or"
            " replace that by POST /api/workflows/secrets.",
            names=sorted(taken),
        )


async def list_all(connection: Connection, account_id: UUID) -> list[SecretView]:
    """Return the account's secrets by name, and the workflows that use each."""
    uses = await _uses(connection, account_id)
    cursor = await connection.execute(
        'select name, created_at, updated_at from secrets where account_id = %s order by name collate "C"',
        (account_id,),
    )
    return [SecretView(**row, used_by=uses.get(row["name"], [])) for row in await cursor.fetchall()]


async def delete(connection: Connection, actor: Actor, name: str, *, force: bool = False) -> None:
    """Delete a secret; call it in a transaction.

    Args:
        connection: inside a transaction.
        actor: the owner of the secret, and the one who deletes it.
        name: the secret's name.
        force: delete it even if workflows use it; their steps that name it will fail.

    Raises:
        NotFound: unknown, or another account's.
        Conflict: `secret_in_use`, naming the workflows.
    """
    if not NAME.fullmatch(name):
        raise NotFound("secret")
    # Locked before the uses are read, so that transactions that store a workflow with it (`hold`) have
    # finished.
    cursor = await connection.execute(
        "select from secrets where account_id = %s and name = %s for update", (actor.account_id, name)
    )
    if await cursor.fetchone() is None:
        raise NotFound("secret")
    used_by = (await _uses(connection, actor.account_id)).get(name, [])
    if used_by and not force:
        raise _in_use(used_by)
    await connection.execute(
        "delete from secrets where account_id = %s and name = %s", (actor.account_id, name)
    )
    changes = {"used_by": [str(use.id) for use in used_by]} if used_by else None
    await audit.record(connection, actor, "secret.deleted", Target("secret", name=name), changes)


async def list_names(connection: Connection, account_id: UUID) -> frozenset[str]:
    """Return the names of the account's secrets."""
    cursor = await connection.execute("select name from secrets where account_id = %s", (account_id,))
    return frozenset([row["name"] for row in await cursor.fetchall()])


async def hold(connection: Connection, account_id: UUID, names: Collection[str]) -> bool:
    """Lock these secrets against deletion until the transaction ends. Return whether all of them exist."""
    cursor = await connection.execute(
        "select name from secrets where account_id = %s and name = any(%s) order by name for key share",
        (account_id, list(names)),
    )
    return len(await cursor.fetchall()) == len(set(names))


async def signing_schemes(connection: Connection, account_id: UUID, name: str) -> list[str]:
    """Return the schemes by which the account's workflows verify signatures with a secret, each once."""
    cursor = await connection.execute(
        "select distinct v.definition->'trigger'->'signature'->>'scheme' as scheme from automations a"
        " join automation_versions v on v.automation_id = a.id and v.version = a.version"
        " where a.account_id = %s and a.deleted_at is null and v.secrets @> array[%s]"
        " and v.definition->'trigger'->'signature'->>'secret' = %s",
        (account_id, name, name),
    )
    return [row["scheme"] for row in await cursor.fetchall()]


async def load_values(
    connection: Connection, keyring: Keyring, account_id: UUID, names: Collection[str]
) -> dict[str, str]:
    """Return the values of those of `names` that exist.

    Raises:
        UnsealError: one was sealed with a key that is not in the keyring.
    """
    cursor = await connection.execute(
        "select name, sealed from secrets where account_id = %s and name = any(%s)",
        (account_id, list(names)),
    )
    return {
        row["name"]: keyring.open(_PURPOSE, row["sealed"], _context(account_id, row["name"])).decode()
        for row in await cursor.fetchall()
    }


async def _uses(connection: Connection, account_id: UUID) -> dict[str, list[SecretUse]]:
    """Return for each name the workflows whose current version uses it, newest first."""
    cursor = await connection.execute(
        "select a.id, a.name, v.secrets from automations a"
        " join automation_versions v on v.automation_id = a.id and v.version = a.version"
        " where a.account_id = %s and a.deleted_at is null and v.secrets <> '{}' order by a.id desc",
        (account_id,),
    )
    uses: dict[str, list[SecretUse]] = {}
    for row in await cursor.fetchall():
        for name in row["secrets"]:
            uses.setdefault(name, []).append(SecretUse(id=row["id"], name=row["name"]))
    return uses


def _in_use(used_by: list[SecretUse]) -> Conflict:
    shown = ", ".join(f"“{use.name}”" for use in used_by[:3])
    more = f" and {len(used_by) - 3} more" if len(used_by) > 3 else ""
    return Conflict(
        "secret_in_use",
        f"Used by {shown}{more}: change that first, or delete the secret with force.",
        used_by=[use.model_dump(mode="json") for use in used_by],
    )


def _context(account_id: UUID, name: str) -> str:
    return f"{account_id}/{name}"
