"""Retries and cancellations of many runs at once, carried out in the background."""

from alembic import op

revision = "0051"
down_revision = "0050"
branch_labels = None
depends_on = None

works_from = "0043"
locks = {"accounts": "ShareRowExclusiveLock"}


def upgrade() -> None:
    op.execute(
        """
        create table bulk_actions (
          account_id uuid not null
            constraint fk_bulk_actions_account_id_accounts references accounts (id) on delete cascade,
          id uuid not null,
          action text not null, version text not null, filter json not null,
          actor json not null, may_look_up boolean not null,
          run_ids uuid[] not null,
          taken integer not null, done integer not null, failed integer not null,
          skipped json not null, errors json not null,
          due_at timestamptz not null, created_at timestamptz not null,
          cancelled_at timestamptz, completed_at timestamptz,
          constraint pk_bulk_actions primary key (account_id, id)
        ) with (fillfactor = 80)
        """
    )
    op.execute(
        "create index ix_bulk_actions_unfinished on bulk_actions (account_id, id) where completed_at is null"
    )


def downgrade() -> None:
    op.execute("drop table bulk_actions")
