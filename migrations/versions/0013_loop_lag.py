"""The lag of each worker's event loop."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("workers", sa.Column("loop_lag", sa.Float(), server_default="0", nullable=False))


def downgrade() -> None:
    op.drop_column("workers", "loop_lag")
