"""The number and time of losses of a worker that had a run."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("takeovers", sa.Integer(), server_default="0", nullable=False))
    op.add_column("runs", sa.Column("taken_over_at", sa.DateTime(timezone=True)))


def downgrade() -> None:
    op.drop_column("runs", "taken_over_at")
    op.drop_column("runs", "takeovers")
