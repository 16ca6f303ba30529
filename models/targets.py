"""What accepting a run needs to know of the workflow it is for: one query on the busiest path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from database import Connection
from models.automations import INTERACTIVE, Status, token_hash
from models.errors import Conflict, NotFound
from workflows.definition import Definition, Trigger


@dataclass(frozen=True)
class Target:
    """What accepting a run needs to know of the workflow it is for."""

    automation_id: UUID
    account_id: UUID
    status: Status
    version: int
    lane_id: int
    trigger: Trigger
    reads_request: bool


_TARGET = (
    "select a.id as automation_id, a.account_id, a.status, a.version, l.id as lane_id,"
    " v.definition->'trigger' as trigger, v.reads_request"
    " from automations a"
    " join automation_versions v on v.automation_id = a.id and v.version = a.version"
    " join lanes l on l.automation_id = a.id and l.version = a.version and l.priority = %s"
)


async def ingest_target(connection: Connection, token: str) -> Target:
    """The workflow that an ingest token belongs to.

    Raises:
        NotFound: for an unknown, revoked or malformed token alike.
        Conflict: if the workflow is not active.
    """
    cursor = await connection.execute(
        _TARGET + " where a.ingest_token_hash = %s and a.deleted_at is null", (INTERACTIVE, token_hash(token))
    )
    return _target(await cursor.fetchone())


async def run_target(connection: Connection, account_id: UUID, automation_id: UUID) -> Target:
    """The account's workflow, for a run by hand.

    Raises:
        NotFound: unknown, or another account's.
        Conflict: if the workflow is not active.
    """
    cursor = await connection.execute(
        _TARGET + " where a.account_id = %s and a.id = %s and a.deleted_at is null",
        (INTERACTIVE, account_id, automation_id),
    )
    return _target(await cursor.fetchone())


def _target(row: dict[str, Any] | None) -> Target:
    if row is None:
        raise NotFound("workflow")
    row["trigger"] = _trigger(row["trigger"])
    target = Target(**row)
    if target.status != "active":
        raise Conflict("workflow_not_active", f"The workflow is {target.status}; activate it first.")
    return target


def _trigger(stored: dict[str, Any] | None) -> Trigger:
    return Definition.model_validate({"name": "_", **({"trigger": stored} if stored else {})}).trigger
