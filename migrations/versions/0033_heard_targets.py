"""The number of targets of a monitor's run that were heard: those are charged."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "monitor_runs", sa.Column("heard_records", sa.Integer(), nullable=False, server_default="0")
    )
    op.execute("update monitor_runs set heard_records = processed_records - failed_records")


def downgrade() -> None:
    op.drop_column("monitor_runs", "heard_records")
