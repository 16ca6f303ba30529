"""Totals of what processes observe, failed runs by workflow, the last backup, and the origins of runs."""

from alembic import op

import sql

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None

works_from = "0043"
locks = {"automations": "ShareRowExclusiveLock", "runs": "AccessExclusiveLock"}


def upgrade() -> None:
    op.execute(
        """
        create table figures (
          name text not null, labels text[] not null, amounts double precision[] not null,
          constraint pk_figures primary key (name, labels)
        ) with (fillfactor = 50)
        """
    )
    op.execute(
        """
        create table workflow_failures (
          account_id uuid not null,
          automation_id uuid not null
            constraint fk_workflow_failures_automation_id_automations references automations (id)
            on delete cascade,
          slot timestamptz not null, failed integer not null,
          constraint pk_workflow_failures primary key (account_id, automation_id, slot)
        )
        """
    )
    op.execute(
        """
        create table last_backup (
          id smallint constraint pk_last_backup primary key,
          made_at timestamptz not null,
          constraint ck_last_backup_one check (id = 1)
        )
        """
    )
    op.execute("alter table runs add column traceparent text, add column request_id text")
    op.execute(sql.read_function("claim_runs_3"))
    op.execute(sql.read_function("claim_runs_2.shim"))


def downgrade() -> None:
    op.execute("drop function claim_runs_2")
    op.execute(sql.read_function("claim_runs_2"))
    op.execute("drop function claim_runs_3")
    op.execute("alter table runs drop column traceparent, drop column request_id")
    for table in ("last_backup", "workflow_failures", "figures"):
        op.execute(f"drop table {table}")
