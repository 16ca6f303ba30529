"""The latest activity of an account, of all kinds, read from the rows that there are.

Each entry has a key in the form of an id that begins with a time: its own id, or one made of its time. So
each kind is a bounded range of an index, and a cursor is one key.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, LiteralString
from uuid import UUID

from pydantic import Field

from database import Connection
from models.activity.states import NEWEST, WAITING_STEPS
from models.views import View

ActivityKind = Literal[
    "run_failed", "monitor_run", "approval", "webhook_disabled", "job", "source_silent", "workflow_change"
]


class ActivityView(View):
    """Something that happened."""

    at: datetime = Field(description="When it happened.")
    kind: ActivityKind = Field(
        description="A run that failed, a run of a monitor that failed or found changes, an approval that is"
        " waited for, a webhook that was switched off, a job that ended, a source that a monitor does not"
        " hear, or a change of a workflow or secret."
    )
    id: str = Field(description="The id of what it happened to: of the run, job, monitor, webhook, workflow.")
    title: str | None = Field(description="What that is called; null if it has no name.")
    outcome: str = Field(
        description="What happened: the code of an error, `changes`, `waiting`, the reason, the status of a"
        " job, the name of a source, or what was done."
    )
    link: str | None = Field(description="The path that shows more; null if nothing does.")


def _key(moment: LiteralString, of: LiteralString) -> LiteralString:
    """Return the SQL of an id that begins with a time and is otherwise that of a text."""
    return (
        "(lpad(to_hex(floor(extract(epoch from " + moment + ") * 1000)::bigint), 12, '0')"
        " || substr(md5(" + of + "), 1, 20))::uuid"
    )


_FAILED: LiteralString = """
select r.id as key, r.completed_at as at, 'run_failed' as kind, r.id::text as id, a.name as title,
  coalesce(r.error->>'code', 'failed') as outcome, '/api/workflows/runs/' || r.id as link
from (
  select * from runs where account_id = %(account_id)s and status = 'failed' and id < %(before)s
  order by id desc limit %(most)s
) r join automations a on a.id = r.automation_id
"""
_MONITOR_RUNS: LiteralString = """
select r.id, r.completed_at, 'monitor_run', r.id::text, m.name,
  case r.status when 'failed' then coalesce(r.error->>'code', 'failed') else 'changes' end,
  '/api/monitors/' || r.monitor_id || '/runs/' || r.id
from (
  select * from monitor_runs where account_id = %(account_id)s and id < %(before)s
    and completed_at is not null and (status = 'failed' or changes_detected > 0)
  order by id desc limit %(most)s
) r join monitors m on m.id = r.monitor_id where m.deleted_at is null
"""
_JOBS: LiteralString = """
select j.id, j.completed_at, 'job', j.id::text, coalesce(j.name, j.type), j.status, '/api/bulk-jobs/' || j.id
from (
  select * from jobs where account_id = %(account_id)s and id < %(before)s and completed_at is not null
    and deleted_at is null
  order by id desc limit %(most)s
) j
"""
_CHANGES: LiteralString = """
select c.id, c.created_at, 'workflow_change', coalesce(c.target_id, c.id)::text, c.target_name, c.action,
  case when c.target_kind = 'workflow' then '/api/workflows/' || c.target_id || '/audit' end
from (
  select * from audit_log where account_id = %(account_id)s and id < %(before)s
    and target_kind in ('workflow', 'secret') and action not like 'run.%%'
  order by id desc limit %(most)s
) c
"""
_APPROVALS: LiteralString = (
    "select "
    + _key("s.began", "s.run_id || s.step_id")
    + ", s.began, 'approval', s.run_id::text, coalesce(p.title, a.name), 'waiting',"
    " '/api/workflows/runs/' || s.run_id from ("
    " select q.run_id, q.step_id, w.automation_id,"
    "  (w.progress->'steps'->q.step_id->>'began')::timestamptz as began"
    " from (select array(select run_id from run_work where account_id = %(account_id)s"
    "  and status = 'waiting' order by run_id desc limit %(newest)s) as ids) n"
    " cross join lateral (" + WAITING_STEPS + ") q join run_work w on w.run_id = q.run_id) s"
    " join automations a on a.id = s.automation_id"
    " left join run_prompts p on p.run_id = s.run_id and p.step_id = s.step_id"
)
_WEBHOOKS: LiteralString = (
    "select "
    + _key("updated_at", "id::text")
    + ", updated_at, 'webhook_disabled', id::text, url, disabled_reason, '/api/webhooks/' || id"
    " from endpoints where account_id = %(account_id)s and not is_active and disabled_reason is not null"
)
_SILENT: LiteralString = (
    "select "
    + _key("s.emitted_at", "s.monitor_id || s.source")
    + ", s.emitted_at, 'source_silent', s.monitor_id::text, m.name, s.source, '/api/monitors/' || m.id"
    " from monitors m join monitor_sources s on s.monitor_id = m.id"
    " where m.account_id = %(account_id)s and m.deleted_at is null and s.emitted_at is not null"
)
_LIST: LiteralString = (
    "select * from ("
    + " union all ".join((_FAILED, _MONITOR_RUNS, _JOBS, _CHANGES, _APPROVALS, _WEBHOOKS, _SILENT))
    + ") as happened where key < %(before)s order by key desc limit %(most)s"
)
_LAST = UUID(int=2**128 - 1)


async def list_activity(
    connection: Connection, account_id: UUID, *, before: UUID | None, limit: int
) -> tuple[list[ActivityView], UUID | None]:
    """Return what happened, the newest first, and the `before` of the next page, if there is one."""
    cursor = await connection.execute(
        _LIST,
        {"account_id": account_id, "before": before or _LAST, "most": limit + 1, "newest": NEWEST},
    )
    rows = await cursor.fetchall()
    page = [ActivityView(**{name: row[name] for name in ActivityView.model_fields}) for row in rows[:limit]]
    return page, rows[limit - 1]["key"] if len(rows) > limit else None
