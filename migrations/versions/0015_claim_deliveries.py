"""The claim of deliveries, which the database decides for all workers and endpoints."""

from alembic import op

import sql

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(sql.read_function("claim_deliveries"))


def downgrade() -> None:
    op.execute("drop function claim_deliveries")
