"""Approvals: steps that wait for somebody's answer, in all runs of an account."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from pydantic import ValidationError

from database import Connection
from language.progress import read_progress, steps_under_way

_MOST_RUNS = 1000


class Approval(NamedTuple):
    """A step that waits.

    Attributes:
        position: the step's place in the workflow.
        asked_at: when it began to wait.
        expires_at: when it waits no longer.
    """

    run_id: UUID
    workflow_id: UUID
    workflow_name: str
    step_id: str
    position: int
    title: str | None
    message: str | None
    asked_at: datetime
    expires_at: datetime | None


async def list_newest(connection: Connection, account_id: UUID, limit: int) -> list[Approval]:
    """Return the steps that wait for an answer now, of the newest runs first.

    It looks at the 1,000 newest runs that wait for anything: for a time, or for somebody.
    """
    cursor = await connection.execute(
        "select w.run_id, w.progress, r.automation_id, v.definition->>'name' as name,"
        " (select json_object_agg(s.step->>'id', s.place - 1) from json_array_elements("
        "   case json_typeof(v.definition->'steps') when 'array' then v.definition->'steps' end)"
        "   with ordinality s (step, place) where s.step->>'type' = 'wait') as waits,"
        " (select json_object_agg(p.step_id, json_build_array(p.title, p.message))"
        "   from run_prompts p where p.run_id = w.run_id) as prompts"
        " from (select run_id, progress from run_work where account_id = %s"
        "  and (status = 'waiting' or status = 'running' and wake_at > now())"
        "  order by run_id desc limit %s) w"
        " join runs r on r.id = w.run_id"
        " join automation_versions v on v.automation_id = r.automation_id and v.version = r.version"
        " order by w.run_id desc",
        (account_id, _MOST_RUNS),
    )
    found: list[Approval] = []
    for row in await cursor.fetchall():
        waits: dict[str, int] = row["waits"] or {}
        prompts: dict[str, list[str | None]] = row["prompts"] or {}
        try:
            live = steps_under_way(read_progress(row["progress"])) if waits else []
        except ValidationError:
            continue  # another build wrote it
        for step in live:
            if step.step_id in waits and step.status == "waiting":
                title, message = prompts.get(step.step_id, [None, None])
                found.append(
                    Approval(
                        row["run_id"], row["automation_id"], row["name"], step.step_id, waits[step.step_id],
                        title, message, step.started_at, step.until,
                    )
                )  # fmt: skip
        if len(found) >= limit:
            break
    return found[:limit]
