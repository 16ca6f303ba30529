"""Uploads: files that were sent to workflows, and the runs made of them."""

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_UPLOADS = """
create table uploads (
  id uuid not null constraint pk_uploads primary key,
  account_id uuid not null
    constraint fk_uploads_account_id_accounts references accounts (id) on delete cascade,
  automation_id uuid not null, first_run_id uuid not null, last_run_id uuid not null,
  runs_total integer not null, runs_completed integer, runs_failed integer, runs_cancelled integer,
  created_at timestamptz not null, cancelled_at timestamptz, completed_at timestamptz
);
create index ix_uploads_account_id on uploads (account_id);
create index ix_uploads_completed_at on uploads (completed_at);
"""


def upgrade() -> None:
    op.execute(_UPLOADS)


def downgrade() -> None:
    op.execute("drop table uploads")
