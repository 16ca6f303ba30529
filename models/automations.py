"""Automations: what users call workflows: the head row and its immutable versions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
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
from language.validation.checks import reads_request, secrets_used
from models import audit, automation_schedules, ingest_tokens
from models.audit import Actor
from models.definitions import Checked
from models.errors import NotFound, VersionMismatch
from models.identifiers import new_id
from models.lanes import BULK, INTERACTIVE
from models.views import View
from sealing import Keyring


class Automation(SQLModel, table=True):
    """A workflow as its owner sees it: a name, a status, and which version is current."""

    __tablename__ = "automations"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        CheckConstraint("status in ('active', 'paused', 'draft')", name="status"),
        Index("ix_automations_account_id_id", "account_id", "id"),
    )

    id: UUID = Field(primary_key=True)
    account_id: UUID = Field(sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False))
    name: str = Field(sa_type=Text)
    description: str | None = Field(sa_type=Text)
    status: str = Field(sa_type=Text)
    version: int
    concurrency_limit: int | None
    ingest_token_hash: bytes = Field(sa_column=Column(LargeBinary, nullable=False, unique=True))
    ingest_token_sealed: bytes = Field(sa_type=LargeBinary)
    created_at: datetime = Field(sa_type=DateTime(timezone=True))  # pyright: ignore[reportArgumentType]
    updated_at: datetime = Field(sa_type=DateTime(timezone=True))  # pyright: ignore[reportArgumentType]
    deleted_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))


class AutomationVersion(SQLModel, table=True):
    """One definition, never changed once written: a run always shows the one it ran."""

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


class WorkflowView(View):
    """The workflow object of the API."""

    id: UUID = Field(description="The workflow's id.")
    name: str = Field(description="What it is called.")
    description: str | None = Field(description="What it is for.")
    status: Status = Field(description="Only an active workflow starts runs.")
    trigger: dict[str, Any] = Field(description="What starts its runs, as it was saved.")
    steps: list[dict[str, Any]] = Field(description="What a run does, as it was saved.")
    input_schema: dict[str, Any] | None = Field(
        description="A JSON Schema that the input of every run must meet; null for none."
    )
    concurrency: dict[str, Any] | None = Field(
        description="How many runs of it there may be at a time, and what becomes of others; null for any."
    )
    on_failure: dict[str, Any] | None = Field(
        description="The workflow that runs when a run of it has failed; null for none."
    )
    agents: bool = Field(description="Whether agents (MCP) may see it and use it.")
    version: int = Field(description='The number of the current version; `If-Match` takes it as `"v3"`.')
    webhook_url: str = Field(description="Its ingest URL: who has it can start runs.")
    created_at: datetime = Field(description="When it was made.")
    updated_at: datetime = Field(description="When it was last changed.")
    last_run_at: datetime | None = Field(
        default=None, description="When its latest run was accepted; null for never."
    )
    runs_total: int = Field(default=0, description="How many runs were accepted.")
    next_run_at: datetime | None = Field(
        default=None, description="When its schedule has it run next; null unless it is active and has one."
    )
    next_runs: list[datetime] = Field(
        default_factory=list[datetime],
        description="The next five times of its schedule; empty unless it is active and has one.",
    )
    warnings: list[dict[str, str]] | None = Field(
        default=None, description="What is doubtful about it; only after it was saved, else null."
    )


@dataclass(frozen=True)
class Readings:
    """What the expressions of a definition read beside the event.

    Attributes:
        secrets: the names, each once.
        request: whether they read the headers or the query of the triggering request.
    """

    secrets: list[str]
    request: bool


def readings_of(definition: Definition) -> Readings:
    """With many expressions this takes most of a second."""
    return Readings(secrets_used(definition), reads_request(definition))


async def create(
    connection: Connection,
    keyring: Keyring,
    actor: Actor,
    definition: Definition,
    status: Status,
    readings: Readings | None = None,
    template_id: str | None = None,
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
    """
    automation_id = new_id()
    token = ingest_tokens.new_token(keyring, automation_id)
    await connection.execute(
        "insert into tenants (account_id) values (%s) on conflict do nothing", (actor.account_id,)
    )
    await connection.execute(
        "insert into automations (id, account_id, name, description, status, version, concurrency_limit,"
        " ingest_token_hash, ingest_token_sealed, created_at, updated_at)"
        " values (%s, %s, %s, %s, %s, 1, %s, %s, %s, now(), now())",
        (
            automation_id,
            actor.account_id,
            definition.name,
            definition.description,
            status,
            _limit(definition),
            token.hash,
            token.sealed,
        ),
    )
    await _add_version(connection, actor, automation_id, 1, definition, readings or readings_of(definition))
    await automation_schedules.save(connection, actor.account_id, automation_id, definition, status)
    target = audit.Target("workflow", automation_id, definition.name)
    changes = {"status": status} | ({"template_id": template_id} if template_id else {})
    await audit.record(connection, actor, "workflow.created", target, changes)
    return automation_id


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
    """What the audit log says of a change."""

    action: str
    changes: dict[str, Any]


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
        " concurrency_limit = %s, updated_at = now()"
        " where account_id = %s and id = %s and version = %s and deleted_at is null",
        (
            definition.name,
            definition.description,
            checked.status,
            following,
            _limit(definition),
            actor.account_id,
            automation_id,
            version,
        ),
    )
    if cursor.rowcount == 0:
        return False
    await _add_version(connection, actor, automation_id, following, definition, readings)
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
) -> None:
    stored = definition.model_dump(mode="json", exclude_unset=True)
    await connection.execute(
        "insert into automation_versions (automation_id, version, definition, reads_request, secrets,"
        " created_at, created_by) values (%s, %s, %s, %s, %s, now(), %s)",
        (automation_id, version, Json(stored), readings.request, readings.secrets, actor.name),
    )
    await connection.execute(
        "insert into lanes (account_id, automation_id, version, priority)"
        " select %s, %s, %s, unnest(%s::smallint[])",
        (actor.account_id, automation_id, version, [INTERACTIVE, BULK]),
    )


_VIEW: LiteralString = (
    "select a.*, v.definition, l.last_run_at, l.runs_total, s.next_run_at,"
    " coalesce(s.next_runs, '{}') as next_runs"
    " from automations a"
    " join automation_versions v on v.automation_id = a.id and v.version = a.version"
    " left join automation_schedules s on s.automation_id = a.id,"
    " lateral (select max(served_at) as last_run_at, coalesce(sum(runs_total), 0)::bigint as runs_total"
    "  from lanes where automation_id = a.id) l"
)


_CHOSEN: LiteralString = (
    " where a.account_id = %(account_id)s and a.deleted_at is null"
    " and (%(status)s::text is null or a.status = %(status)s)"
)
_OF_AGENTS: LiteralString = (
    " and (select coalesce((definition->>'agents')::boolean, true) from automation_versions"
    " where automation_id = a.id and version = a.version) = %(agents)s"
)


async def get(
    connection: Connection, keyring: Keyring, account_id: UUID, automation_id: UUID, address: str
) -> WorkflowView:
    """The workflow object.

    Raises:
        NotFound: unknown, or another account's.
    """
    cursor = await connection.execute(
        _VIEW + " where a.account_id = %s and a.deleted_at is null and a.id = %s", (account_id, automation_id)
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("workflow")
    return _view(row, keyring, address)


async def list_page(
    connection: Connection,
    keyring: Keyring,
    account_id: UUID,
    address: str,
    *,
    status: Status | None,
    agents: bool | None = None,
    page: int,
    limit: int,
) -> tuple[list[WorkflowView], int]:
    """A page of the account's workflows (from 1), newest first, and how many there are in all.

    Args:
        connection: any.
        keyring: opens their ingest tokens.
        account_id: whose.
        address: of the service, for their ingest URLs.
        status: only those with it.
        agents: only those that agents may see, or may not.
        page: its number.
        limit: how many it has at most.
    """
    wanted = {
        "account_id": account_id, "status": status, "agents": agents,
        "limit": limit, "offset": (page - 1) * limit,
    }  # fmt: skip
    chosen = _CHOSEN + (_OF_AGENTS if agents is not None else "")
    cursor = await connection.execute(
        _VIEW + chosen + " order by a.id desc limit %(limit)s offset %(offset)s", wanted
    )
    views = [_view(row, keyring, address) for row in await cursor.fetchall()]
    cursor = await connection.execute("select count(*)::int as total from automations a" + chosen, wanted)
    row = await cursor.fetchone()
    return views, row["total"] if row else 0


def _view(row: dict[str, Any], keyring: Keyring, address: str) -> WorkflowView:
    definition: dict[str, Any] = row["definition"]
    return WorkflowView(
        **{name: row[name] for name in row if name in WorkflowView.model_fields},
        trigger=definition.get("trigger", {"type": "manual"}),
        steps=definition.get("steps", []),
        input_schema=definition.get("input_schema"),
        concurrency=definition.get("concurrency"),
        on_failure=definition.get("on_failure"),
        agents=definition.get("agents", True),
        webhook_url=ingest_tokens.url_of(keyring, row["id"], row["ingest_token_sealed"], address),
    )
