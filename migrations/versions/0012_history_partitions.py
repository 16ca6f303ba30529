"""History in weekly partitions, so that old rows are dropped instead of deleted; dedupe keys apart."""

from alembic import op

import sql

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

# Each with its partition column: the id of a run, which begins with its time.
_TABLES = {"runs": "id", "run_steps": "run_id", "run_step_items": "run_id"}
_PRIMARY_KEYS = {"runs": "id", "run_steps": "run_id, step_id", "run_step_items": "run_id, step_id, item"}
_INDEXES = {
    "ix_runs_account_id_id": "(account_id, id)",
    "ix_runs_automation_id_id": "(automation_id, id)",
    "ix_runs_rare_status": "(account_id, status, id) where status in ('failed', 'cancelled')",
}
_FOREIGN_KEYS = {
    "runs": {"account_id": "accounts", "automation_id": "automations"},
    "run_work": {"run_id": "runs"},
    "run_steps": {"run_id": "runs"},
    "run_step_items": {"run_id": "runs"},
}
_COUNTED = {
    "update": "old table as former new table as changed",
    "delete": "old table as former",
}
# Attaching a table blocks no other transaction, unlike creating it as a partition. Weeks begin on Mondays, in
# UTC. The time of an id counts as that of the insert, so that no row belongs to a past week.
_MAKE_PARTITIONS = """
create function make_history_partitions(ahead interval) returns void language plpgsql as $$
declare
  whole text;
  child text;
  week timestamptz;
  upto uuid;
begin
  perform pg_advisory_xact_lock(hashtext('make_history_partitions'));
  foreach whole in array array['runs', 'run_steps', 'run_step_items'] loop
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
# A partition that is being detached is no longer read, but is still listed here.
_PARTITIONS = r"""
create view history_partitions as
select p.relname::text as parent, c.relname::text as name, i.inhdetachpending as detaching,
  substring(pg_get_expr(c.relpartbound, c.oid) from $$TO \('([^']+)'\)$$)::uuid as upper_id
from pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_class p on p.oid = i.inhparent
where i.inhparent in ('runs'::regclass, 'run_steps'::regclass, 'run_step_items'::regclass)
"""
# The coming week begins after all existing rows, even if a clock was ahead.
_ATTACH_FORMER = """
do $$
declare
  parent text;
  upto uuid := first_id(date_trunc('week', greatest(now(), (
    select max(uuid_extract_timestamp(id)) from runs_before)), 'UTC') + interval '168 hours');
begin
  foreach parent in array array['runs', 'run_steps', 'run_step_items'] loop
    execute format('alter table %I attach partition %I for values from (minvalue) to (%L)',
                   parent, parent || '_before', upto);
  end loop;
end $$
"""


def upgrade() -> None:
    op.execute("lock table runs, run_work, run_steps, run_step_items in access exclusive mode")
    _take_keys_apart()
    for change in _COUNTED:
        op.execute(f"drop trigger count_{change} on runs")
    for table, columns in _FOREIGN_KEYS.items():
        for column, referred in columns.items():
            op.execute(f"alter table {table} drop constraint fk_{table}_{column}_{referred}")
    for table in _TABLES:
        op.execute(f"alter table {table} rename to {table}_before")
        op.execute(f"alter table {table}_before rename constraint pk_{table} to pk_{table}_before")
    for index in _INDEXES:
        op.execute(f"alter index {index} rename to {index}_before")
    for table, column in _TABLES.items():
        op.execute(
            f"create table {table} (like {table}_before including defaults including constraints,"
            f" constraint pk_{table} primary key ({_PRIMARY_KEYS[table]})) partition by range ({column})"
        )
    _make_indexes()
    op.execute(sql.read_function("first_id"))
    op.execute(_PARTITIONS)
    op.execute(_MAKE_PARTITIONS)
    if op.get_bind().exec_driver_sql("select 1 from runs_before limit 1").first():
        op.execute(_ATTACH_FORMER)
    else:
        op.execute("drop table runs_before, run_steps_before, run_step_items_before")
    op.execute("select make_history_partitions('30 days')")
    _count()
    # A claimed run must be found by its id, whatever the statistics of a young partition suggest.
    op.execute("alter function claim_runs set enable_hashjoin = off set enable_mergejoin = off")


def _take_keys_apart() -> None:
    op.execute(
        "create table run_dedupe_keys (automation_id uuid not null, dedupe_key text not null,"
        " run_id uuid not null, constraint pk_run_dedupe_keys primary key (automation_id, dedupe_key))"
    )
    op.execute(
        "insert into run_dedupe_keys (automation_id, dedupe_key, run_id)"
        " select automation_id, dedupe_key, id from runs where dedupe_key is not null"
    )
    op.execute("create index ix_run_dedupe_keys_run_id on run_dedupe_keys (run_id)")
    op.execute("drop index uq_runs_dedupe")
    op.execute("alter table runs drop column dedupe_key")


def _make_indexes() -> None:
    for index, on in _INDEXES.items():
        op.execute(f"create index {index} on runs {on}")


def _count() -> None:
    for change, seen in _COUNTED.items():
        op.execute(
            f"create trigger count_{change} after {change} on runs referencing {seen}"
            " for each statement execute function count_runs()"
        )


def downgrade() -> None:
    op.execute("lock table runs, run_work, run_steps, run_step_items in access exclusive mode")
    op.execute("alter function claim_runs reset enable_hashjoin reset enable_mergejoin")
    for table, key in _PRIMARY_KEYS.items():
        op.execute(f"create table whole_{table} (like {table} including defaults including constraints)")
        op.execute(f"insert into whole_{table} select * from {table}")
        op.execute(f"alter table whole_{table} add constraint pk_whole_{table} primary key ({key})")
    op.execute("drop view history_partitions")
    op.execute("drop table runs, run_steps, run_step_items")
    for table in _TABLES:
        op.execute(f"alter table whole_{table} rename to {table}")
        op.execute(f"alter table {table} rename constraint pk_whole_{table} to pk_{table}")
    op.execute("alter table runs set (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01)")
    op.execute("alter table runs add column dedupe_key text")
    op.execute("update runs r set dedupe_key = k.dedupe_key from run_dedupe_keys k where k.run_id = r.id")
    op.execute("drop table run_dedupe_keys")
    op.execute(
        "create unique index uq_runs_dedupe on runs (automation_id, dedupe_key) where dedupe_key is not null"
    )
    _make_indexes()
    for table, columns in _FOREIGN_KEYS.items():
        for column, referred in columns.items():
            op.execute(
                f"alter table {table} add constraint fk_{table}_{column}_{referred} foreign key ({column})"
                f" references {referred} (id) on delete cascade"
            )
    _count()
    op.execute("drop function make_history_partitions; drop function first_id")
