"""What agents may not do: approve in a person's place, or learn of workflows that are hidden from them.

Agents come through the MCP server. One that could send itself a resume URL, take out the step that waits, or
run a version without it would give the answer that was asked of a person. So an agent saves no workflow that
sends resume URLs, but for the steps of a template as they are, and changes nothing but the status of one that
waits, itself or in a workflow that it runs.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import cast
from uuid import UUID

from database import Connection
from models.audit import Actor
from models.errors import Forbidden, NotFound
from models.events.event_types import EVENT_TYPES, matches
from models.runs.run_writes import MAX_DEPTH

# Also of workflows that were deleted: who deletes one must not free those that run it. The walk follows
# stored edges, and reads each definition once.
_WAITS = """
with recursive below (id, depth) as (
  select %(id)s::uuid, 0
  union
  select c.child_id, b.depth + 1 from below b
  join automation_children c on c.automation_id = b.id and c.account_id = %(account_id)s
  where b.depth < %(depth)s
)
select exists (
  select from (select distinct id from below) b
  join automations a on a.id = b.id and a.account_id = %(account_id)s
  join automation_versions v on v.automation_id = a.id and v.version = a.version,
  json_array_elements(coalesce(v.definition->'steps', '[]')) s
  where s->>'type' = 'wait'
) as waits
"""
# Also those of lookups: one of a step names its run.
_TELL_OF_WORKFLOWS = [name for name in EVENT_TYPES if name.startswith(("workflow.", "lookup."))]


def check_new_secrets(actor: Actor, names: Collection[str]) -> None:
    """Refuse an agent to give secrets: a template sends resume URLs to an address that is one.

    Besides, what an agent is told, others have read.

    Raises:
        Forbidden: `person_required`.
    """
    if actor.is_agent and names:
        raise Forbidden("person_required", "Agents give no secrets: ask the user to store them.")


def check_new_workflow(actor: Actor, *, sends_resume_urls: bool, has_own_steps: bool) -> None:
    """Refuse an agent a new workflow that could send resume URLs to itself.

    Args:
        actor: who makes it.
        sends_resume_urls: whether its steps read resume URLs.
        has_own_steps: whether its steps are others than those of a template.

    Raises:
        Forbidden: `person_required`.
    """
    if actor.is_agent and sends_resume_urls and has_own_steps:
        raise Forbidden(
            "person_required",
            "Agents cannot send resume URLs: leave run.resume_urls out; people see them in the run.",
        )


async def check_workflow_change(
    connection: Connection, actor: Actor, automation_id: UUID, *, sends_resume_urls: bool = False
) -> None:
    """Refuse an agent a change of a workflow that waits for a person's answer, and its deletion.

    Args:
        connection: any.
        actor: whose workflow it is, and who changes it.
        automation_id: which.
        sends_resume_urls: whether the changed steps read resume URLs.

    Raises:
        Forbidden: `person_required`.
    """
    if actor.is_agent and await _waits(connection, actor.account_id, automation_id):
        raise Forbidden(
            "person_required",
            "This workflow, or one that it runs, waits for a person's answer: agents can change its status"
            " alone.",
        )
    check_new_workflow(actor, sends_resume_urls=sends_resume_urls, has_own_steps=True)


async def check_retry(connection: Connection, actor: Actor, run_id: UUID, version: int | None) -> None:
    """Refuse an agent a retry with another version than the current one, where that waits for an answer.

    Args:
        connection: any.
        actor: whose run it is, and who retries it.
        run_id: the run.
        version: to retry with; None for the one that it ran.

    Raises:
        Forbidden: `person_required`.
        NotFound: the run is unknown, or another account's.
    """
    if not actor.is_agent:
        return
    cursor = await connection.execute(
        "select r.automation_id, r.version as ran, a.version as current from runs r"
        " join automations a on a.id = r.automation_id where r.account_id = %s and r.id = %s",
        (actor.account_id, run_id),
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("run")
    wanted = row["ran"] if version is None else version
    if wanted != row["current"] and await _waits(connection, actor.account_id, row["automation_id"]):
        raise Forbidden(
            "person_required",
            "The workflow waits for a person's answer: agents can retry with its current version alone,"
            f" which is {row['current']}.",
        )


async def check_endpoint(connection: Connection, actor: Actor, patterns: Collection[str]) -> None:
    """Refuse an agent an endpoint that would be told of workflows, where some are hidden from agents.

    Args:
        connection: any.
        actor: who makes or changes it.
        patterns: the events that it is to get.

    Raises:
        Forbidden: `person_required`.
    """
    if not actor.is_agent:
        return
    told = any(matches(pattern, name) for pattern in patterns for name in _TELL_OF_WORKFLOWS)
    if told and await _has_hidden(connection, actor.account_id):
        raise Forbidden(
            "person_required",
            "Some workflows are hidden from agents, and these events would tell of them: choose others.",
        )


async def _waits(connection: Connection, account_id: UUID, automation_id: UUID) -> bool:
    """Say whether the current version of a workflow, or of one that it runs, has a step that waits."""
    named = {"id": automation_id, "account_id": account_id, "depth": MAX_DEPTH}
    cursor = await connection.execute(_WAITS, named)
    return cast(dict[str, bool], await cursor.fetchone())["waits"]


async def _has_hidden(connection: Connection, account_id: UUID) -> bool:
    """Say whether agents may not see some of the account's workflows."""
    cursor = await connection.execute(
        "select exists (select from automations a join automation_versions v"
        " on v.automation_id = a.id and v.version = a.version where a.account_id = %s"
        " and a.deleted_at is null and (v.definition->>'agents')::boolean = false) as hidden",
        (account_id,),
    )
    return cast(dict[str, bool], await cursor.fetchone())["hidden"]
