"""The graph of workflows that run other workflows as steps: an edge for each, of current versions only.

The edges are stored with the version, so that following them needs no definitions.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from sqlalchemy import Column, ForeignKey
from sqlmodel import Field, SQLModel

from database import Connection
from language.definition import Definition
from language.steps import WorkflowStep

# Any constant: the second part of the lock is the hash of an account's id.
_SAVING = 0x5A7E


class AutomationChild(SQLModel, table=True):
    """One workflow that another runs as a step; its row stays when the child is deleted."""

    __tablename__ = "automation_children"  # pyright: ignore[reportAssignmentType]

    automation_id: UUID = Field(
        sa_column=Column(ForeignKey("automations.id", ondelete="CASCADE"), primary_key=True)
    )
    child_id: UUID = Field(primary_key=True)
    account_id: UUID


async def lock_account(connection: Connection, account_id: UUID) -> None:
    """Wait until no other transaction stores workflows of the account; the lock ends with the transaction."""
    await connection.execute("select pg_advisory_xact_lock(%s, hashtext(%s))", (_SAVING, str(account_id)))


async def save(connection: Connection, account_id: UUID, automation_id: UUID, definition: Definition) -> None:
    """Replace the edges of a workflow with those of its new version."""
    children = {step.config.workflow_id for step in definition.steps if isinstance(step, WorkflowStep)}
    await delete(connection, account_id, automation_id)
    await connection.execute(
        "insert into automation_children (automation_id, child_id, account_id)"
        " select %s, unnest(%s::uuid[]), %s",
        (automation_id, list(children), account_id),
    )


async def delete(connection: Connection, account_id: UUID, automation_id: UUID) -> None:
    """Delete the edges of a workflow that is deleted."""
    await connection.execute(
        "delete from automation_children where automation_id = %s and account_id = %s",
        (automation_id, account_id),
    )


async def find_known(connection: Connection, account_id: UUID, ids: Collection[UUID]) -> set[UUID]:
    """Return those of the ids that are workflows of the account."""
    cursor = await connection.execute(
        "select coalesce(array_agg(id), '{}') as ids from automations"
        " where account_id = %s and id = any(%s) and deleted_at is null",
        (account_id, list(ids)),
    )
    return _ids(await cursor.fetchone())


async def find_children(connection: Connection, account_id: UUID, parents: Collection[UUID]) -> set[UUID]:
    """Return the workflows that any of these run as steps."""
    cursor = await connection.execute(
        "select coalesce(array_agg(distinct child_id), '{}') as ids from automation_children"
        " where account_id = %s and automation_id = any(%s)",
        (account_id, list(parents)),
    )
    return _ids(await cursor.fetchone())


async def find_parents(
    connection: Connection, account_id: UUID, among: Collection[UUID], children: Collection[UUID]
) -> set[UUID]:
    """Return those workflows of `among` that run one of `children` as a step."""
    cursor = await connection.execute(
        "select coalesce(array_agg(distinct automation_id), '{}') as ids from automation_children"
        " where account_id = %s and automation_id = any(%s) and child_id = any(%s)",
        (account_id, list(among), list(children)),
    )
    return _ids(await cursor.fetchone())


def _ids(row: dict[str, list[UUID]] | None) -> set[UUID]:
    return set(row["ids"]) if row else set()
