"""Claims that find each queue with one probe of the index."""

from alembic import op

import sql

revision = "0053"
down_revision = "0052"
branch_labels = None
depends_on = None

works_from = "0043"
locks = {}


def upgrade() -> None:
    for name in ("find_queues_2", "claim_runs_4"):
        op.execute(sql.read_function(name))


def downgrade() -> None:
    for name in ("claim_runs_4", "find_queues_2"):
        op.execute(f"drop function {name}")
