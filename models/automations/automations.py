"""Automations: what users call workflows: the head row and its immutable versions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Json
from sqlalchemy import (
    JSON,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    LargeBinary,
    Text,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from database import Connection
from language.definition import Definition, Status
from language.validation.checks import reads_request, reads_resume_urls, secrets_used
from models import audit, gates
from models.audit import Actor
from models.automations import automation_children, ingest_tokens
from models.automations.definitions import Checked
from models.errors import Conflict, NotFound, VersionMismatch
from models.identifiers import new_id
from models.schedules import automation_schedules
from sealing import Keyring


class Automation(SQLModel, table=True):
    """A workflow as its owner sees it: a name, a status, and which version is current."""

    __tablename__ = "automations"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        CheckConstraint("status in ('active', 'paused', 'draft')", name="status"),
        Index("ix_automations_account_id_id", "account_id", "id"),
        Index("ix_automations_live", "account_id", postgresql_where="deleted_at is null"),
    )

    id: UUID = Field(primary_key=True)
    account_id: UUID = Field(sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False))
    name: str = Field(sa_type=Text)
    description: str | None = Field(sa_type=Text)
    status: str = Field(sa_type=Text)
    version: int
    concurrency_limit: int | None
    execution: str | None = Field(sa_type=Text)
    ingest_token_hash: bytes = Field(sa_column=Column(LargeBinary, nullable=False, unique=True))
    ingest_token_sealed: bytes = Field(sa_type=LargeBinary)
    created_at: datetime = Field(sa_type=DateTime(timezone=True))  # pyright: ignore[reportArgumentType]
    updated_at: datetime = Field(sa_type=DateTime(timezone=True))  # pyright: ignore[reportArgumentType]
    deleted_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))


class AutomationVersion(SQLModel, table=True):
    """One definition, never changed once written: a run always shows the one it ran.

    Attributes:
        name: that of the definition; None if a release before this column stored it.
        changes: the fields that differ from the version before; None like `name`.
    """

    __tablename__ = "automation_versions"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        Index(
            "ix_automation_versions_events",
            "automation_id",
            "version",
            postgresql_where="definition->'trigger'->>'type' = 'monitor_event'",
        ),
    )

    automation_id: UUID = Field(
        sa_column=Column(ForeignKey("automations.id", ondelete="CASCADE"), primary_key=True)
    )
    version: int = Field(primary_key=True)
    definition: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    reads_request: bool
    secrets: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False, server_default="{}"))
    created_at: datetime = Field(sa_type=DateTime(timezone=True))  # pyright: ignore[reportArgumentType]
    created_by: str = Field(sa_type=Text)
    name: str | None = Field(sa_type=Text)
    changes: list[str] | None = Field(sa_column=Column(ARRAY(Text)))


@dataclass(frozen=True)
class Readings:
    """What the expressions of a definition read beside the event.

    Attributes:
        secrets: the names, each once.
        request: whether they read the headers or the query of the triggering request.
        resume_urls: whether they read the URLs by which a run is resumed.
    """

    secrets: list[str]
    request: bool
    resume_urls: bool


def readings_of(definition: Definition) -> Readings:
    """With many expressions this takes most of a second."""
    return Readings(secrets_used(definition), reads_request(definition), reads_resume_urls(definition))


async def create(
    connection: Connection,
    keyring: Keyring,
    actor: Actor,
    definition: Definition,
    status: Status,
    readings: Readings | None = None,
    template_id: str | None = None,
    most: int | None = None,
) -> UUID:
    """Store a new workflow with its first version and an ingest token. Run it inside a transaction.

    Args:
        connection: inside a transaction.
        keyring: seals the token.
        actor: whose workflow it is, and who makes it.
        definition: checked.
        status: of the workflow.
        readings: of the definition, if they are known.
        template_id: the template that it is a copy of, if it is one.
        most: how many workflows the account may have; None for any number.

    Raises:
        Conflict: it has as many.
    """
    if most is not None:
        await _refuse_one_more(connection, actor.account_id, most)
    automation_id = new_id()
    token = ingest_tokens.new_token(keyring, automation_id)
    await connection.execute(
        "insert into automations (id, account_id, name, description, status, version, concurrency_limit,"
        " execution, ingest_token_hash, ingest_token_sealed, created_at, updated_at)"
        " values (%s, %s, %s, %s, %s, 1, %s, %s, %s, %s, now(), now())",
        (
            automation_id,
            actor.account_id,
            definition.name,
            definition.description,
            status,
            _limit(definition),
            definition.execution,
            token.hash,
            token.sealed,
        ),
    )
    await gates.set_limit(connection, automation_id, _limit(definition))
    readings = readings or readings_of(definition)
    await _add_version(connection, actor, automation_id, 1, definition, readings, [])
    await automation_schedules.save(connection, actor.account_id, automation_id, definition, status)
    target = audit.Target("workflow", automation_id, definition.name)
    changes = {"status": status} | ({"template_id": template_id} if template_id else {})
    await audit.record(connection, actor, "workflow.created", target, changes)
    return automation_id


async def _refuse_one_more(connection: Connection, account_id: UUID, most: int) -> None:
    # One at a time for an account, so that none comes in over the bound.
    await connection.execute("select from accounts where id = %s for no key update", (account_id,))
    if await count(connection, account_id) >= most:
        message = f"An account has at most {most:,} workflows; delete some."
        raise Conflict("too_many_workflows", message, limit=most)


async def count(connection: Connection, account_id: UUID) -> int:
    """Return how many workflows an account has; an index of its own keeps that cheap."""
    cursor = await connection.execute(
        "select count(*)::int as n from automations where account_id = %s and deleted_at is null",
        (account_id,),
    )
    row = await cursor.fetchone()
    return row["n"] if row else 0


@dataclass(frozen=True)
class Current:
    """A workflow as it stands; `definition` is as it is stored."""

    version: int
    status: Status
    definition: dict[str, Any]


async def current(
    connection: Connection, account_id: UUID, automation_id: UUID, expected_version: int | None = None
) -> Current:
    """What a change of the workflow starts from.

    Args:
        connection: any.
        account_id: whose workflow it is.
        automation_id: which.
        expected_version: the version that the change is meant for, if the client named one.

    Raises:
        NotFound: unknown, or another account's.
        VersionMismatch: it has changed since.
    """
    cursor = await connection.execute(
        "select a.version, a.status, v.definition from automations a"
        " join automation_versions v on v.automation_id = a.id and v.version = a.version"
        " where a.account_id = %s and a.id = %s and a.deleted_at is null",
        (account_id, automation_id),
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("workflow")
    if expected_version not in (None, row["version"]):
        raise VersionMismatch(row["version"])
    return Current(**row)


async def earlier(connection: Connection, automation_id: UUID, version: int) -> dict[str, Any]:
    """The definition of an earlier version of a workflow that is the account's, as it is stored.

    Raises:
        NotFound: there is none with this number.
    """
    cursor = await connection.execute(
        "select definition from automation_versions where automation_id = %s and version = %s",
        (automation_id, version),
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("version")
    return row["definition"]


@dataclass(frozen=True)
class Edit:
    """What is recorded of a change.

    Attributes:
        action: what the audit log calls it.
        changes: what the audit log says of it.
        fields: the fields of the definition that differ; None has them compared when they are listed.
    """

    action: str
    changes: dict[str, Any]
    fields: list[str] | None = None


async def replace(
    connection: Connection,
    actor: Actor,
    automation_id: UUID,
    version: int,
    checked: Checked,
    readings: Readings,
    edit: Edit,
) -> bool:
    """Store a checked definition after this version, if it is still the current one.

    Run it inside a transaction. Returns whether it was.
    """
    definition, following = checked.definition, version + 1
    cursor = await connection.execute(
        "update automations set name = %s, description = %s, status = %s, version = %s,"
        " concurrency_limit = %s, execution = %s, updated_at = now()"
        " where account_id = %s and id = %s and version = %s and deleted_at is null",
        (
            definition.name,
            definition.description,
            checked.status,
            following,
            _limit(definition),
            definition.execution,
            actor.account_id,
            automation_id,
            version,
        ),
    )
    if cursor.rowcount == 0:
        return False
    await gates.set_limit(connection, automation_id, _limit(definition))
    await _add_version(connection, actor, automation_id, following, definition, readings, edit.fields)
    await automation_schedules.save(connection, actor.account_id, automation_id, definition, checked.status)
    target = audit.Target("workflow", automation_id, definition.name)
    await audit.record(connection, actor, edit.action, target, edit.changes | {"version": following})
    return True


async def delete(
    connection: Connection, actor: Actor, automation_id: UUID, expected_version: int | None = None
) -> None:
    """Take a workflow away: it accepts nothing more; its runs stay readable until they are too old.

    Run it inside a transaction. Its arguments and what it raises are those of `current`.
    """
    cursor = await connection.execute(
        "update automations set deleted_at = now(), status = 'paused'"
        " where account_id = %s and id = %s and deleted_at is null returning name, version",
        (actor.account_id, automation_id),
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("workflow")
    if expected_version not in (None, row["version"]):
        raise VersionMismatch(row["version"])
    await automation_schedules.end(connection, automation_id)
    await automation_children.delete(connection, actor.account_id, automation_id)
    await audit.record(
        connection, actor, "workflow.deleted", audit.Target("workflow", automation_id, row["name"])
    )


def _limit(definition: Definition) -> int | None:
    return None if definition.concurrency is None else definition.concurrency.limit


async def _add_version(
    connection: Connection,
    actor: Actor,
    automation_id: UUID,
    version: int,
    definition: Definition,
    readings: Readings,
    changes: list[str] | None,
) -> None:
    stored = definition.model_dump(mode="json", exclude_unset=True)
    await connection.execute(
        "insert into automation_versions (automation_id, version, definition, reads_request, secrets,"
        " created_at, created_by, name, changes) values (%s, %s, %s, %s, %s, now(), %s, %s, %s)",
        (
            automation_id, version, Json(stored), readings.request, readings.secrets, actor.name,
            definition.name, changes,
        ),
    )  # fmt: skip
    await automation_children.save(connection, actor.account_id, automation_id, definition)
