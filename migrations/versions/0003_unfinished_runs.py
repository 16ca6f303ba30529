"""Unfinished runs by workflow, and runs of the rarer statuses by account."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_runs_unfinished",
        "runs",
        ["automation_id", "id"],
        postgresql_where=sa.text("completed_at is null"),
    )
    op.create_index(
        "ix_runs_rare_status",
        "runs",
        ["account_id", "status", "id"],
        postgresql_where=sa.text("status in ('waiting', 'failed', 'cancelled')"),
    )


def downgrade() -> None:
    op.drop_index("ix_runs_rare_status", table_name="runs")
    op.drop_index("ix_runs_unfinished", table_name="runs")
