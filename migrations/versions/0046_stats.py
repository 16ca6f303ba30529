"""Statistics of accounts by the minute, hour and day, and indexes of what activity shows."""

from alembic import op

import sql
from migrations.indexes import build_index

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None

works_from = "0043"
locks = {"accounts": "ShareRowExclusiveLock", "runs": "ShareRowExclusiveLock"}


def upgrade() -> None:
    build_index(
        "ix_monitor_runs_notable",
        "monitor_runs (account_id, id)"
        " where completed_at is not null and (status = 'failed' or changes_detected > 0)",
    )
    build_index(
        "ix_audit_log_definitions",
        "audit_log (account_id, id) where target_kind in ('workflow', 'secret') and action not like 'run.%'",
    )
    op.execute(
        """
        create table stat_entries (
          account_id uuid not null,
          id bigint generated always as identity,
          minute timestamptz not null,
          figure text not null, subject text not null, outcome text not null, code text not null,
          bucket smallint not null, amount bigint not null,
          constraint pk_stat_entries primary key (account_id, id)
        ) with (autovacuum_vacuum_scale_factor = 0.01)
        """
    )
    op.execute(
        """
        create table stats (
          account_id uuid not null
            constraint fk_stats_account_id_accounts references accounts (id) on delete cascade,
          grain text not null, figure text not null, part text not null, slot timestamptz not null,
          subject text not null, outcome text not null, bucket smallint not null, amount bigint not null,
          constraint pk_stats primary key (account_id, grain, figure, part, slot, subject, outcome, bucket)
        ) with (fillfactor = 80)
        """
    )
    op.execute("create index ix_stats_slot on stats using brin (slot)")
    op.execute(sql.read_function("duration_bucket_1"))
    op.execute(sql.read_function("count_runs_2"))
    _count_by("count_runs_2")


def downgrade() -> None:
    _count_by("count_runs")
    op.execute("drop function count_runs_2, duration_bucket_1")
    op.execute("drop index ix_monitor_runs_notable, ix_audit_log_definitions")
    op.execute("drop table stats, stat_entries")


def _count_by(function: str) -> None:
    op.execute(
        "create or replace trigger count_update after update on runs"
        " referencing old table as former new table as changed"
        f" for each statement execute function {function}()"
    )
