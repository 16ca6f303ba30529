"""The newest run of each monitor whose changes its account has seen."""

from alembic import op

revision = "0049"
down_revision = "0048"
branch_labels = None
depends_on = None

works_from = "0043"
locks = {"monitors": "AccessExclusiveLock"}


def upgrade() -> None:
    op.execute(
        "alter table monitors add column seen_run_id uuid, add column seen_at timestamptz,"
        " add column seen_changed bigint not null default 0"
    )


def downgrade() -> None:
    op.execute("alter table monitors drop column seen_run_id, drop column seen_at, drop column seen_changed")
