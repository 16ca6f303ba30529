"""Shifts: a worker has one lease for all its runs, and claims from many queues at once."""

from importlib import import_module

from alembic import op

import sql

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None

_FUNCTIONS = (
    "gate_of_1", "promote_held_2", "leave_gates_1", "end_cancelled_2", "cancel_children_2", "wake_runs_2",
    "start_after_failure_2", "find_queues_1", "claim_runs_2", "end_shift_1",
    "notify_1",
)  # fmt: skip
_TABLES = """
create table shifts (
  id uuid constraint pk_shifts primary key, worker_id uuid not null,
  started_at timestamptz not null default now(), beats bigint not null default 0,
  beat_at timestamptz not null default now(), at_work integer not null default 0,
  room integer not null default -1
) with (fillfactor = 50);
create table gates (
  workflow_id uuid constraint pk_gates primary key
    constraint fk_gates_workflow_id_automations references automations (id) on delete cascade,
  lim integer not null, begun integer not null default 0
) with (fillfactor = 50);
create table run_starts (
  automation_id uuid constraint pk_run_starts primary key
    constraint fk_run_starts_automation_id_automations references automations (id) on delete cascade,
  runs bigint not null, last_at timestamptz not null
) with (fillfactor = 50);
create table versions_aside (
  automation_id uuid
    constraint fk_versions_aside_automation_id_automations references automations (id) on delete cascade,
  version integer, setbacks json not null, aside_until timestamptz not null,
  constraint pk_versions_aside primary key (automation_id, version)
)
"""
# Runs at work or waiting no longer belong to a batch.
_MOVE = """
insert into run_starts (automation_id, runs, last_at)
select automation_id, sum(runs_total), max(served_at) from lanes where served_at is not null
group by automation_id;
insert into versions_aside (automation_id, version, setbacks, aside_until)
select distinct on (automation_id, version) automation_id, version, setbacks, aside_until from lanes
where setbacks is not null and aside_until is not null order by automation_id, version, aside_until desc;
alter table run_work add column version integer, add column priority smallint, add column gate uuid,
  add column claim_id uuid, add column carrier uuid, add column own boolean not null default false,
  add column handed_at timestamptz, add column progress_no integer not null default 0;
update run_work w set version = l.version, gate = gate_of_1(w.automation_id),
  priority = l.priority + case when w.lost >= 2 then 10 else 0 end,
  held = w.held and gate_of_1(w.automation_id) <> '00000000-0000-0000-0000-000000000000',
  status = case when w.status = 'running' then 'queued' else w.status end,
  wake_at = case when w.status = 'running' then null else w.wake_at end
from lanes l where l.id = w.lane_id;
alter table run_work alter column version set not null, alter column priority set not null,
  alter column gate set not null;
insert into gates (workflow_id, lim, begun)
select a.id, a.concurrency_limit,
  (select count(*) from run_work w where w.automation_id = a.id and w.begun)
from automations a where a.concurrency_limit is not null;
alter table run_work drop column lane_id, drop column batch_id;
alter table runs drop column batch_id;
drop table batches, lanes, tenants;
drop function claim_runs, promote_held, count_under_way, cancel_children, end_cancelled, wake_runs,
  start_after_failure;
create index ix_run_work_queued on run_work
  (own, priority, account_id, gate, begun desc, available_at, run_id) where status = 'queued' and not held;
create index ix_run_work_held on run_work (gate, priority, available_at, run_id) where held;
create index ix_run_work_carrier on run_work (carrier) where carrier is not null;
create index ix_run_work_gate on run_work (gate)
  where begun and gate <> '00000000-0000-0000-0000-000000000000';
create index ix_run_work_handed on run_work (handed_at) where handed_at is not null;
create index ix_run_work_woken on run_work (run_id) where woken;
alter table automations add column execution text;
alter table run_steps add column performed_by text
"""
_TABLES_BEFORE = """
create table tenants (
  account_id uuid constraint pk_tenants primary key
    constraint fk_tenants_account_id_accounts references accounts (id) on delete cascade,
  served_at timestamptz
);
insert into tenants (account_id) select distinct account_id from automations;
create table lanes (
  id bigint generated always as identity constraint pk_lanes primary key,
  account_id uuid not null
    constraint fk_lanes_account_id_accounts references accounts (id) on delete cascade,
  automation_id uuid not null
    constraint fk_lanes_automation_id_automations references automations (id) on delete cascade,
  version integer not null, priority smallint not null, served_at timestamptz,
  runs_total bigint not null default 0, aside_until timestamptz, setbacks json,
  constraint uq_lanes_automation_id_version_priority unique (automation_id, version, priority)
);
insert into lanes (account_id, automation_id, version, priority)
select a.account_id, a.id, v.version, p.priority
from automation_versions v join automations a on a.id = v.automation_id, unnest(array[2, 4]) as p (priority);
update lanes l set served_at = s.last_at, runs_total = s.runs
from run_starts s join automations a on a.id = s.automation_id
where l.automation_id = a.id and l.version = a.version and l.priority = 2;
create table batches (
  id uuid constraint pk_batches primary key,
  account_id uuid not null
    constraint fk_batches_account_id_accounts references accounts (id) on delete cascade,
  lane_id bigint not null, executor uuid, worker_id uuid, beat_at timestamptz not null,
  started_at timestamptz, runs integer not null, trigger text not null, parked boolean not null default false,
  probed_at timestamptz not null default now()
) with (fillfactor = 50);
create index ix_batches_at_work on batches (account_id) where not parked;
create index ix_batches_lane_id on batches (lane_id);
alter table runs add column batch_id uuid;
drop index ix_run_work_queued, ix_run_work_held, ix_run_work_carrier, ix_run_work_gate, ix_run_work_handed,
  ix_run_work_woken;
alter table run_work add column lane_id bigint, add column batch_id uuid;
update run_work w set lane_id = l.id, status = 'queued', wake_at = null from lanes l
where l.automation_id = w.automation_id and l.version = w.version
  and l.priority = case when w.priority % 10 <= 2 then 2 else 4 end;
alter table run_work alter column lane_id set not null,
  add constraint fk_run_work_lane_id_lanes foreign key (lane_id) references lanes (id) on delete cascade;
alter table run_work drop column version, drop column priority, drop column gate, drop column claim_id,
  drop column carrier, drop column own, drop column handed_at, drop column progress_no;
alter table automations drop column execution;
alter table run_steps drop column performed_by;
create index ix_run_work_batch on run_work (batch_id) where batch_id is not null;
create index ix_run_work_queued on run_work (lane_id, begun, available_at, run_id)
  where status = 'queued' and not held;
create index ix_run_work_held on run_work (lane_id, available_at, run_id) where held;
drop table shifts, gates, run_starts, versions_aside
"""


def upgrade() -> None:
    _execute(_TABLES)
    op.execute(sql.read_function("gate_of_1"))
    _execute(_MOVE)
    for name in _FUNCTIONS[1:]:
        op.execute(sql.read_function(name))


def downgrade() -> None:
    kinds = import_module("migrations.versions.0019_step_kinds")
    held = import_module("migrations.versions.0025_held_runs")
    op.execute("drop function " + ", ".join(name for name in _FUNCTIONS))
    _execute(_TABLES_BEFORE)
    for text in (
        kinds._WAKE_RUNS, kinds._START_AFTER_FAILURE, held._COUNT_UNDER_WAY, held._PROMOTE_HELD,
        held._END_CANCELLED, held._CANCEL_CHILDREN, held._CLAIM_RUNS,
    ):  # fmt: skip
        op.execute(text)
    held._find_by_id("claim_runs")


def _execute(statements: str) -> None:
    for statement in statements.split(";\n"):
        op.execute(statement)
