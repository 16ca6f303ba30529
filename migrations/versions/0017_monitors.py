"""Monitors, their targets, their runs, and the snapshots of their targets."""

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_MONITORS = """
create table monitors (
  id uuid not null constraint pk_monitors primary key,
  account_id uuid not null
    constraint fk_monitors_account_id_accounts references accounts (id) on delete cascade,
  name text not null, status text not null, paused_reason text, monitor_type text not null,
  frequency text, cron text, timezone text not null, change_detection text not null,
  tracked_fields text[] not null, ignored_fields text[] not null, tolerance json not null,
  retention_days integer, list_id uuid, target_count integer not null,
  run_id uuid, runs bigint not null default 0, results bigint not null default 0,
  changed bigint not null default 0,
  last_run_at timestamptz, next_run_at timestamptz, scheduled_for timestamptz,
  created_at timestamptz not null, updated_at timestamptz not null, deleted_at timestamptz,
  constraint ck_monitors_status check (status in ('active', 'paused')),
  constraint ck_monitors_type
    check (monitor_type in ('email', 'phone', 'domain', 'ip', 'company', 'darkweb')),
  constraint ck_monitors_calendar check ((frequency is null) <> (cron is null)),
  constraint ck_monitors_next_run_at
    check ((next_run_at is null) = (status = 'paused' or deleted_at is not null))
) with (fillfactor = 50);
create index ix_monitors_account_id_id on monitors (account_id, id);
create index ix_monitors_list_id on monitors (list_id) where list_id is not null;
create index ix_monitors_next_run_at on monitors (next_run_at) where next_run_at is not null;
create index ix_monitors_unscheduled on monitors (id) where scheduled_for is distinct from next_run_at;
create index ix_monitors_deleted on monitors (id) where deleted_at is not null;
create table monitor_targets (
  monitor_id uuid not null
    constraint fk_monitor_targets_monitor_id_monitors references monitors (id) on delete cascade,
  id bigint not null generated always as identity,
  target text collate "C" not null,
  constraint pk_monitor_targets primary key (monitor_id, id),
  constraint uq_monitor_targets_monitor_id_target unique (monitor_id, target)
)
"""
_RUNS = """
create table monitor_runs (
  id uuid not null constraint pk_monitor_runs primary key,
  account_id uuid not null,
  monitor_id uuid not null
    constraint fk_monitor_runs_monitor_id_monitors references monitors (id) on delete cascade,
  monitor_type text not null, status text not null, trigger text not null,
  total_records integer not null, processed_records integer not null default 0,
  failed_records integer not null default 0, changes_detected integer not null default 0,
  error json, created_at timestamptz not null, started_at timestamptz, completed_at timestamptz,
  begun_at timestamptz, probed_at timestamptz,
  constraint ck_monitor_runs_status
    check (status in ('queued', 'running', 'completed', 'failed', 'cancelled')),
  constraint ck_monitor_runs_trigger check (trigger in ('schedule', 'manual'))
) with (fillfactor = 50);
create index ix_monitor_runs_account_id_id on monitor_runs (account_id, id);
create index ix_monitor_runs_monitor_id_id on monitor_runs (monitor_id, id);
create index ix_monitor_runs_unfinished on monitor_runs (account_id, id) where completed_at is null;
create table monitor_run_chunks (
  run_id uuid not null
    constraint fk_monitor_run_chunks_run_id_monitor_runs references monitor_runs (id) on delete cascade,
  number integer not null, targets text[] not null,
  constraint pk_monitor_run_chunks primary key (run_id, number)
);
create table monitor_results (
  run_id uuid not null, position integer not null, monitor_id uuid not null,
  target text collate "C" not null, has_changes boolean not null, changes json, details json, error json,
  constraint pk_monitor_results primary key (run_id, position)
);
create index ix_monitor_results_target on monitor_results (monitor_id, target, run_id);
create index ix_monitor_results_changed on monitor_results (run_id, position) where has_changes
"""
_SNAPSHOTS = """
create table monitor_baselines (
  monitor_id uuid not null, target text collate "C" not null,
  content_hash bytea not null, snapshot json not null, updated_at timestamptz not null,
  constraint pk_monitor_baselines primary key (monitor_id, target)
) with (fillfactor = 70);
create table monitor_snapshots (
  monitor_id uuid not null, target text collate "C" not null, run_id uuid not null, data json not null,
  constraint pk_monitor_snapshots primary key (monitor_id, target, run_id)
)
"""
_TABLES = (
    "monitor_snapshots", "monitor_baselines", "monitor_results", "monitor_run_chunks", "monitor_runs",
    "monitor_targets", "monitors",
)  # fmt: skip


def upgrade() -> None:
    op.execute(_MONITORS)
    op.execute(_RUNS)
    op.execute(_SNAPSHOTS)


def downgrade() -> None:
    for table in _TABLES:
        op.execute(f"drop table {table}")
