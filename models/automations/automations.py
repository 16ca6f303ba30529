"""Automations, which users call workflows: the head row and its immutable versions."""

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
from models import audit, gates
from models.audit import Actor
from models.automations import automation_children, ingest_tokens
from models.automations.definitions import CheckedDefinition
from models.errors import Conflict, NotFound, VersionMismatch
from models.identifiers import new_id
from models.schedules import automation_schedules
from sealing import Keyring


class Automation(SQLModel, table=True):
    """The head row of a workflow: its name, its status, and the number of its current version."""

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
    """A definition of a workflow. It never changes, so a run can always show the version that it ran.

    Attributes:
        name: that of the definition; None if it was stored by a release without this column.
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


async def create(
    connection: Connection,
    keyring: Keyring,
    actor: Actor,
    checked: CheckedDefinition,
    *,
    template_id: str | None = None,
    most: int | None = None,
) -> UUID:
    """Store a new workflow with its first version and an ingest token. Run it inside a transaction.

    Args:
        connection: inside a transaction.
        keyring: seals the token.
        actor: the owner of the workflow, and its creator.
        checked: its definition and status.
        template_id: the template that was copied, if any.
        most: the highest number of workflows of the account; None for no limit.

    Raises:
        Conflict: the account has that many workflows.
    """
    if most is not None:
        await _refuse_one_more(connection, actor.account_id, most)
    automation_id, definition, status = new_id(), checked.definition, checked.status
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
    await _add_version(connection, actor, automation_id, 1, checked, [])
    await automation_schedules.save(connection, actor.account_id, automation_id, definition, status)
    target = audit.Target("workflow", automation_id, definition.name)
    changes = {"status": status} | ({"template_id": template_id} if template_id else {})
    await audit.record(connection, actor, "workflow.created", target, changes)
    return automation_id


async def _refuse_one_more(connection: Connection, account_id: UUID, most: int) -> None:
    # The lock makes creations of an account run one after the other, so that the limit holds.
    await connection.execute("select from accounts where id = %s for no key update", (account_id,))
    if await count(connection, account_id) >= most:
        message = f"An account has at most {most:,} workflows; delete some."
        raise Conflict("too_many_workflows", message, limit=most)


async def count(connection: Connection, account_id: UUID) -> int:
    """Return the number of an account's workflows; an index of its own keeps this cheap."""
    cursor = await connection.execute(
        "select count(*)::int as n from automations where account_id = %s and deleted_at is null",
        (account_id,),
    )
    row = await cursor.fetchone()
    return row["n"] if row else 0


@dataclass(frozen=True)
class CurrentWorkflow:
    """The current state of a workflow; `definition` is in its stored form."""

    version: int
    status: Status
    definition: dict[str, Any]


async def get_current(
    connection: Connection, account_id: UUID, automation_id: UUID, expected_version: int | None = None
) -> CurrentWorkflow:
    """Return the current state of a workflow, from which a change starts.

    Args:
        connection: inside or outside a transaction.
        account_id: the owner of the workflow.
        automation_id: the workflow.
        expected_version: the version that the client wants to change, if it named one.

    Raises:
        NotFound: the workflow is unknown, or another account's.
        VersionMismatch: the workflow has another version now.
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
    return CurrentWorkflow(**row)


async def get_earlier_definition(connection: Connection, automation_id: UUID, version: int) -> dict[str, Any]:
    """Return the stored definition of an earlier version of a workflow; the caller has checked its owner.

    Raises:
        NotFound: there is no version with this number.
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
    """The record of a change.

    Attributes:
        action: the name of the change in the audit log.
        changes: its details in the audit log.
        fields: the fields of the definition that differ; None defers the comparison until versions are
            listed.
    """

    action: str
    changes: dict[str, Any]
    fields: list[str] | None = None


async def replace(
    connection: Connection,
    actor: Actor,
    automation_id: UUID,
    version: int,
    checked: CheckedDefinition,
    edit: Edit,
) -> bool:
    """Store a checked definition as the version after `version`, if that is still the current one.

    Run it inside a transaction. Returns whether it was stored.
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
    await _add_version(connection, actor, automation_id, following, checked, edit.fields)
    await automation_schedules.save(connection, actor.account_id, automation_id, definition, checked.status)
    target = audit.Target("workflow", automation_id, definition.name)
    await audit.record(connection, actor, edit.action, target, edit.changes | {"version": following})
    return True


async def delete(
    connection: Connection, actor: Actor, automation_id: UUID, expected_version: int | None = None
) -> None:
    """Delete a workflow: it accepts no more runs; its runs stay readable until they are too old.

    Run it inside a transaction. Its arguments and errors are those of `get_current`.
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
    checked: CheckedDefinition,
    changes: list[str] | None,
) -> None:
    definition, readings = checked.definition, checked.readings
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
