"""Restrictions on agents: they cannot approve in a person's place or see workflows hidden from them.

Agents use the MCP server. An agent that could send itself a resume URL, remove the step that waits, or run a
version without it would give the answer that only a person may give. Therefore an agent cannot save a
workflow that sends resume URLs, except for the unchanged steps of a template. It can change only the status
of a workflow that waits, itself or in a workflow that it runs.
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

# Deleted workflows are included: deleting one must not unlock those that run it. The walk follows stored
# edges, and reads each definition once.
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
# Events of lookups are included: a lookup by a step names its run.
_TELL_OF_WORKFLOWS = [name for name in EVENT_TYPES if name.startswith(("workflow.", "lookup."))]


def check_new_secrets(actor: Actor, names: Collection[str]) -> None:
    """Refuse secrets from an agent, because a template sends resume URLs to an address stored as a secret.

    Besides, others have read the values that an agent has.

    Raises:
        Forbidden: `person_required`.
    """
    if actor.is_agent and names:
        raise Forbidden("person_required", "Agents give no secrets: ask the user to store them.")


def check_new_workflow(actor: Actor, *, sends_resume_urls: bool, has_own_steps: bool) -> None:
    """Refuse an agent a new workflow that could send resume URLs to itself.

    Args:
        actor: the creator of the workflow.
        sends_resume_urls: whether its steps read resume URLs.
        has_own_steps: whether its steps differ from those of a template.

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
    """Refuse an agent the change or deletion of a workflow that waits for a person's answer.

    Args:
        connection: inside or outside a transaction.
        actor: the owner of the workflow, and the one who changes it.
        automation_id: the workflow.
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
    """Refuse an agent a retry with a version other than the current one, if that waits for a person's answer.

    Args:
        connection: inside or outside a transaction.
        actor: the owner of the run, and the one who retries it.
        run_id: the run.
        version: the version to retry with; None for the version of the run.

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
    """Refuse an agent an endpoint that gets events of workflows, if some workflows are hidden from agents.

    Args:
        connection: inside or outside a transaction.
        actor: the one who creates or changes it.
        patterns: the filters of the events that it gets.

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
    """Return whether the current version of a workflow, or of one that it runs, has a step that waits."""
    named = {"id": automation_id, "account_id": account_id, "depth": MAX_DEPTH}
    cursor = await connection.execute(_WAITS, named)
    return cast(dict[str, bool], await cursor.fetchone())["waits"]


async def _has_hidden(connection: Connection, account_id: UUID) -> bool:
    """Return whether some of the account's workflows are hidden from agents."""
    cursor = await connection.execute(
        "select exists (select from automations a join automation_versions v"
        " on v.automation_id = a.id and v.version = a.version where a.account_id = %s"
        " and a.deleted_at is null and (v.definition->>'agents')::boolean = false) as hidden",
        (account_id,),
    )
    return cast(dict[str, bool], await cursor.fetchone())["hidden"]
