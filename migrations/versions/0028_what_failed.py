"""The failures of a run: the failed items of its steps, and the earlier attempts at its calls."""

from importlib import import_module

from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

# The data of `workflow.run.completed` and `workflow.run.failed`.
_RUN_EVENT = """
create or replace function run_event(r runs, workflow_name text) returns json language plpgsql stable as $$
declare
  started text := iso_time(r.started_at);
  seconds numeric := extract(epoch from r.completed_at - r.started_at);
  total bigint;
  failed bigint;
begin
  select sum(s.items_total), sum(s.items_failed) into total, failed from run_steps s where s.run_id = r.id;
  if r.status = 'completed' then
    return json_build_object(
      'run_id', r.id, 'workflow_id', r.automation_id, 'workflow_name', workflow_name, 'version', r.version,
      'trigger', r.trigger, 'credits_used', r.credits_used, 'items_total', total,
      'items_failed', failed, 'queued_at', iso_time(r.queued_at), 'started_at', started,
      'completed_at', iso_time(r.completed_at), 'duration_ms', floor(seconds * 1000)::bigint);
  end if;
  return json_build_object(
    'run_id', r.id, 'workflow_id', r.automation_id, 'workflow_name', workflow_name, 'version', r.version,
    'trigger', r.trigger, 'credits_used', r.credits_used, 'items_total', total,
    'items_failed', failed, 'queued_at', iso_time(r.queued_at), 'started_at', started,
    'completed_at', iso_time(r.completed_at), 'duration_ms', floor(seconds * 1000)::bigint,
    'error', json_build_object(
      'code', r.error->'code', 'message', r.error->'message', 'step', r.error->'step'));
end $$
"""


def upgrade() -> None:
    op.execute(
        "alter table run_steps add column items_total smallint, add column items_failed smallint,"
        " add column attempt_log json"
    )
    op.execute(_RUN_EVENT)


def downgrade() -> None:
    former: str = import_module("migrations.versions.0014_events").RUN_EVENT
    op.execute(former.replace("create function", "create or replace function", 1))
    op.execute(
        "alter table run_steps drop column items_total, drop column items_failed, drop column attempt_log"
    )
