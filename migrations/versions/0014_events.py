"""Events, the endpoints subscribed to them, and their deliveries; all written by one function."""

from alembic import op

import sql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_ENDPOINTS = """
create table endpoints (
  id uuid not null constraint pk_endpoints primary key,
  account_id uuid not null
    constraint fk_endpoints_account_id_accounts references accounts (id) on delete cascade,
  url text not null, events text[] not null, description text, sealed bytea not null, rate_limit integer,
  is_active boolean not null default true, disabled_reason text, failing_since timestamptz,
  strikes integer not null default 0, paused_until timestamptz, next_at timestamptz, served_at timestamptz,
  created_at timestamptz not null, updated_at timestamptz not null
) with (fillfactor = 50);
create index ix_endpoints_account_id_id on endpoints (account_id, id)
"""
_HISTORY = """
create table events (
  id uuid not null, account_id uuid not null, type text not null, data json not null,
  created_at timestamptz not null, constraint pk_events primary key (id)
) partition by range (id);
create table deliveries (
  id uuid not null, account_id uuid not null, endpoint_id uuid not null, event_id uuid not null,
  event_type text not null, status text not null, attempts integer not null, last_attempt_at timestamptz,
  next_attempt_at timestamptz, created_at timestamptz not null,
  constraint pk_deliveries primary key (id),
  constraint ck_deliveries_status check (status in ('pending', 'delivered', 'failed'))
) partition by range (id);
create index ix_deliveries_account_id_id on deliveries (account_id, id);
create index ix_deliveries_endpoint_id_id on deliveries (endpoint_id, id);
create index ix_deliveries_rare_status on deliveries (account_id, status, id) where status <> 'delivered';
create index ix_deliveries_account_id_event_type_id on deliveries (account_id, event_type, id);
create table delivery_attempts (
  delivery_id uuid not null, number integer not null, trigger text not null, started_at timestamptz not null,
  duration_ms integer not null, response_status integer, response_body text, error json,
  constraint pk_delivery_attempts primary key (delivery_id, number)
) partition by range (delivery_id)
"""
_WORK = """
create table delivery_work (
  delivery_id uuid not null constraint pk_delivery_work primary key,
  event_id uuid not null, account_id uuid not null, endpoint_id uuid not null, status text not null,
  available_at timestamptz not null, batch_id uuid, wake_at timestamptz, attempts integer not null default 0,
  tries integer not null default 0, manual boolean not null default false,
  constraint ck_delivery_work_status check (status in ('queued', 'running', 'waiting'))
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);
create index ix_delivery_work_queued on delivery_work (endpoint_id, available_at, delivery_id)
  where status = 'queued';
create index ix_delivery_work_running on delivery_work (account_id, endpoint_id) where status = 'running';
create index ix_delivery_work_batch on delivery_work (batch_id) where batch_id is not null;
create index ix_delivery_work_wake on delivery_work (wake_at) where status = 'waiting';
create index ix_delivery_work_endpoint on delivery_work (endpoint_id);
create table delivery_batches (
  id uuid not null constraint pk_delivery_batches primary key,
  executor uuid, deliveries integer not null, started_at timestamptz,
  probed_at timestamptz not null default now()
) with (fillfactor = 50);
create index ix_delivery_batches_unstarted on delivery_batches (probed_at) where started_at is null
"""
# The data of `workflow.run.completed` and `workflow.run.failed`.
RUN_EVENT = """
create function run_event(r runs, workflow_name text) returns json language plpgsql stable as $$
declare
  started text := iso_time(r.started_at);
  seconds numeric := extract(epoch from r.completed_at - r.started_at);
begin
  if r.status = 'completed' then
    return json_build_object(
      'run_id', r.id, 'workflow_id', r.automation_id, 'workflow_name', workflow_name, 'version', r.version,
      'trigger', r.trigger, 'credits_used', r.credits_used, 'queued_at', iso_time(r.queued_at),
      'started_at', started, 'completed_at', iso_time(r.completed_at),
      'duration_ms', floor(seconds * 1000)::bigint);
  end if;
  return json_build_object(
    'run_id', r.id, 'workflow_id', r.automation_id, 'workflow_name', workflow_name, 'version', r.version,
    'trigger', r.trigger, 'credits_used', r.credits_used, 'queued_at', iso_time(r.queued_at),
    'started_at', started, 'completed_at', iso_time(r.completed_at),
    'duration_ms', floor(seconds * 1000)::bigint,
    'error', json_build_object(
      'code', r.error->'code', 'message', r.error->'message', 'step', r.error->'step'));
end $$
"""
_TABLES = "'runs', 'run_steps', 'run_step_items'"
_MORE_TABLES = _TABLES + ", 'events', 'deliveries', 'delivery_attempts'"
_MAKE_PARTITIONS = """
create or replace function make_history_partitions(ahead interval) returns void language plpgsql as $$
declare
  whole text;
  child text;
  week timestamptz;
  upto uuid;
begin
  perform pg_advisory_xact_lock(hashtext('make_history_partitions'));
  foreach whole in array array[{tables}] loop
    select p.upper_id into upto from history_partitions p where p.parent = whole
    order by p.upper_id desc limit 1;
    week := date_trunc('week', now() - interval '24 hours', 'UTC');
    while week < now() + ahead loop
      if upto is null or first_id(week) >= upto then
        child := whole || to_char(week at time zone 'UTC', '_YYYYMMDD');
        execute format('create table %I (like %I including defaults including constraints)', child, whole);
        if whole = 'runs' then
          execute format(
            'alter table %I set (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01),'
            ' add constraint id_time check ('
            'uuid_extract_timestamp(id) between queued_at - interval ''24 hours'''
            ' and queued_at + interval ''24 hours'')', child);
        end if;
        execute format('alter table %I attach partition %I for values from (%L) to (%L)',
                       whole, child, first_id(week), first_id(week + interval '168 hours'));
      end if;
      week := week + interval '168 hours';
    end loop;
  end loop;
end $$
"""
_PARTITIONS = r"""
create or replace view history_partitions as
select p.relname::text as parent, c.relname::text as name, i.inhdetachpending as detaching,
  substring(pg_get_expr(c.relpartbound, c.oid) from $$TO \('([^']+)'\)$$)::uuid as upper_id
from pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_class p on p.oid = i.inhparent
where i.inhparent in ({tables})
"""


def _history_is_of(tables: str) -> None:
    classes = ", ".join(f"{table}::regclass" for table in tables.split(", "))
    op.execute(_PARTITIONS.format(tables=classes))
    op.execute(_MAKE_PARTITIONS.format(tables=tables))


def upgrade() -> None:
    for statements in (_ENDPOINTS, _HISTORY, _WORK):
        for statement in statements.split(";\n"):
            op.execute(statement)
    _history_is_of(_MORE_TABLES)
    op.execute("select make_history_partitions('30 days')")
    for function in ("time_ordered_id", "event_patterns", "emit_events", "iso_time"):
        op.execute(sql.read_function(function))
    op.execute(RUN_EVENT)
    op.execute(
        "create index ix_automation_versions_events on automation_versions (automation_id, version)"
        " where definition->'trigger'->>'type' = 'monitor_event'"
    )


def downgrade() -> None:
    op.execute("drop index ix_automation_versions_events")
    for function in ("run_event", "iso_time", "emit_events", "event_patterns", "time_ordered_id"):
        op.execute(f"drop function {function}")
    _history_is_of(_TABLES)
    op.execute("drop table delivery_batches, delivery_work, delivery_attempts, deliveries, events, endpoints")
