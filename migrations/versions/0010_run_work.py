"""Unfinished runs as narrow rows of work; `runs` keeps their inputs and results."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

# An unfinished run is counted in the table of work; when it ends, it moves to the other table.
_COUNT = """
create or replace function count_runs() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        insert into run_counts (account_id, automation_id, status, runs)
        select account_id, automation_id, status, count(*) from changed where status is not null
        group by account_id, automation_id, status;
    elsif tg_op = 'DELETE' then
        insert into run_counts (account_id, automation_id, status, runs)
        select account_id, automation_id, status, -count(*) from former where status is not null
        group by account_id, automation_id, status;
    else
        insert into run_counts (account_id, automation_id, status, runs)
        select account_id, automation_id, status, sum(n) from (
            select account_id, automation_id, status, -1 as n from former where status is not null
            union all
            select account_id, automation_id, status, 1 from changed where status is not null
        ) as moved
        group by account_id, automation_id, status having sum(n) <> 0;
    end if;
    return null;
end $$
"""
_SEEN = {
    "insert": "new table as changed",
    "update": "old table as former new table as changed",
    "delete": "old table as former",
}
# Every unfinished run is queued, even a waiting one: the claiming worker finds the time of its wait in its
# progress.
_TAKE_OVER = """
insert into run_work (run_id, account_id, automation_id, lane_id, status, started_at, begun, available_at,
                      bytes, progress)
select id, account_id, automation_id, lane_id, 'queued', started_at, attempts > 0, queued_at, input_bytes,
  progress
from runs where completed_at is null
"""
_END_CANCELLED = """
update runs set status = 'cancelled', completed_at = now()
where completed_at is null and cancel_requested_at is not null
"""
_NAME_OUTPUTS = """
update runs r set output_of = s.step_id from (
  select distinct on (run_id) run_id, step_id from run_steps where status = 'completed'
  order by run_id, position desc
) s where s.run_id = r.id and r.status = 'completed' and r.output is not null
"""


def upgrade() -> None:
    op.execute("lock table runs in access exclusive mode")
    op.execute(_END_CANCELLED)
    op.execute(_NAME_OUTPUTS)
    _make_run_work()
    op.execute(_TAKE_OVER)
    _make_batches()
    _narrow_runs()
    op.execute(
        "truncate run_counts; insert into run_counts (account_id, automation_id, status, runs)"
        " select account_id, automation_id, status, count(*) from runs where status is not null"
        " group by account_id, automation_id, status"
        " union all select account_id, automation_id, status, count(*) from run_work"
        " group by account_id, automation_id, status"
    )
    op.execute(_COUNT)
    for change, seen in _SEEN.items():
        op.execute(
            f"create trigger count_{change} after {change} on run_work referencing {seen}"
            " for each statement execute function count_runs()"
        )
    op.execute("drop trigger count_insert on runs")
    op.add_column("lanes", sa.Column("aside_until", sa.DateTime(timezone=True), nullable=True))
    op.add_column("lanes", sa.Column("setbacks", sa.JSON(), nullable=True))
    op.add_column(
        "workers", sa.Column("halted", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    )


def _make_run_work() -> None:
    op.drop_table("run_work")
    op.create_table(
        "run_work",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("automation_id", sa.Uuid(), nullable=False),
        sa.Column("lane_id", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("begun", sa.Boolean(), nullable=False),
        sa.Column("available_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.Column("batch_id", sa.Uuid(), nullable=True),
        sa.Column("wake_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("woken", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("progress", sa.JSON(), nullable=True),
        sa.Column("lost", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("setbacks", sa.JSON(), nullable=True),
        sa.CheckConstraint("status in ('queued', 'running', 'waiting')", name="status"),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["automation_id"], ["automations.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["lane_id"], ["lanes.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id"),
        postgresql_with={"fillfactor": 50, "autovacuum_vacuum_scale_factor": 0.01},
    )
    op.create_index("ix_run_work_account_id_run_id", "run_work", ["account_id", "run_id"])
    op.create_index(
        "ix_run_work_batch", "run_work", ["batch_id"], postgresql_where=sa.text("batch_id is not null")
    )
    op.create_index(
        "ix_run_work_queued",
        "run_work",
        ["lane_id", "begun", "available_at", "run_id"],
        postgresql_where=sa.text("status = 'queued'"),
    )
    op.create_index(
        "ix_run_work_wake", "run_work", ["wake_at"], postgresql_where=sa.text("status = 'waiting'")
    )


def _make_batches() -> None:
    op.execute("delete from batches")
    op.add_column("batches", sa.Column("account_id", sa.Uuid(), nullable=False))
    op.add_column("batches", sa.Column("lane_id", sa.BigInteger(), nullable=False))
    op.add_column("batches", sa.Column("runs", sa.Integer(), nullable=False))
    op.add_column("batches", sa.Column("trigger", sa.Text(), nullable=False))
    op.add_column(
        "batches", sa.Column("parked", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    )
    op.add_column(
        "batches",
        sa.Column("probed_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
    )
    op.create_foreign_key(
        "fk_batches_account_id_accounts", "batches", "accounts", ["account_id"], ["id"], ondelete="CASCADE"
    )
    op.create_index("ix_batches_at_work", "batches", ["account_id"], postgresql_where=sa.text("not parked"))


def _narrow_runs() -> None:
    # The indexes and the constraint on a run's progress move with those columns.
    for name in ("waiting_in_lane", "at_work", "batch", "wake", "cancel", "unfinished", "rare_status"):
        op.drop_index(f"ix_runs_{name}", table_name="runs")
    op.drop_constraint("ck_runs_status", "runs", type_="check")
    op.alter_column("runs", "status", nullable=True)
    op.execute("update runs set status = null, progress = null where completed_at is null")
    op.create_check_constraint(
        "status", "runs", "(status in ('completed', 'failed', 'cancelled')) = (completed_at is not null)"
    )
    op.create_index(
        "ix_runs_rare_status",
        "runs",
        ["account_id", "status", "id"],
        postgresql_where=sa.text("status in ('failed', 'cancelled')"),
    )
    for name in (
        "lane_id", "output", "attempts", "wake_at", "cancel_requested_at", "engine_failures", "progressed_at"
    ):  # fmt: skip
        op.drop_column("runs", name)


_PUT_OUTPUTS_BACK = """
update runs r set output = case when s.gathered then (
    select json_agg(case when i.status = 'completed' then i.output else json_build_object(
      'error', json_build_object('code', i.error->'code', 'message', i.error->'message')) end order by i.item)
    from run_step_items i where i.run_id = s.run_id and i.step_id = s.step_id)
  else s.output end
from run_steps s where s.run_id = r.id and s.step_id = r.output_of
"""
# Earlier code cannot read progress written since: it restarts such steps.
_QUEUE_AGAIN = """
update runs r set status = 'queued', lane_id = w.lane_id, started_at = w.started_at, progress = w.progress,
  attempts = case when w.begun then 1 else 0 end
from run_work w where w.run_id = r.id
"""


def downgrade() -> None:
    op.execute("lock table runs in access exclusive mode")
    op.drop_column("workers", "halted")
    op.drop_column("lanes", "setbacks")
    op.drop_column("lanes", "aside_until")
    op.execute("alter table runs drop constraint ck_runs_status")
    op.drop_index("ix_runs_rare_status", table_name="runs")
    for column in (
        sa.Column("lane_id", sa.BigInteger()),
        sa.Column("output", sa.JSON()),
        sa.Column("attempts", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("wake_at", sa.DateTime(timezone=True)),
        sa.Column("cancel_requested_at", sa.DateTime(timezone=True)),
        sa.Column("engine_failures", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("progressed_at", sa.DateTime(timezone=True)),
    ):
        op.add_column("runs", column)
    op.execute(_PUT_OUTPUTS_BACK)
    op.execute(
        "update runs r set lane_id = l.id from lanes l"
        " where l.automation_id = r.automation_id and l.version = r.version and l.priority = 2"
    )
    op.execute(_QUEUE_AGAIN)
    op.alter_column("runs", "lane_id", nullable=False)
    op.alter_column("runs", "status", nullable=False)
    op.create_check_constraint(
        "ck_runs_status",
        "runs",
        "status in ('queued', 'running', 'waiting', 'completed', 'failed', 'cancelled')",
    )
    op.create_foreign_key("fk_runs_lane_id_lanes", "runs", "lanes", ["lane_id"], ["id"], ondelete="CASCADE")
    for name, columns, where in _FORMER_INDEXES:
        op.create_index(f"ix_runs_{name}", "runs", columns, postgresql_where=sa.text(where))
    op.execute("drop table run_work cascade; truncate run_counts")
    op.execute(
        "create trigger count_insert after insert on runs referencing new table as changed"
        " for each statement execute function count_runs()"
    )
    op.execute(
        "insert into run_counts (account_id, automation_id, status, runs)"
        " select account_id, automation_id, status, count(*) from runs"
        " group by account_id, automation_id, status"
    )
    _make_former_tables()


_FORMER_INDEXES = (
    ("waiting_in_lane", ["lane_id", "id"], "status = 'queued'"),
    ("at_work", ["account_id"], "status = 'running'"),
    ("batch", ["batch_id"], "status in ('running', 'waiting')"),
    ("wake", ["wake_at"], "status = 'waiting'"),
    ("cancel", ["cancel_requested_at"], "cancel_requested_at is not null and completed_at is null"),
    ("unfinished", ["automation_id", "id"], "completed_at is null"),
    ("rare_status", ["account_id", "status", "id"], "status in ('waiting', 'failed', 'cancelled')"),
)


def _make_former_tables() -> None:
    """Restore the tables of the previous revision, which were not in use yet."""
    op.drop_index("ix_batches_at_work", table_name="batches")
    op.drop_constraint("fk_batches_account_id_accounts", "batches", type_="foreignkey")
    for name in ("probed_at", "parked", "trigger", "runs", "lane_id", "account_id"):
        op.drop_column("batches", name)
    op.create_table("run_work", sa.Column("run_id", sa.Uuid(), primary_key=True))
