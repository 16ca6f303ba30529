"""An index of queued runs by their time, so that the age of the queue is found at once."""

from alembic import op

from migrations.indexes import build_index

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None

works_from = "0043"
locks: dict[str, str] = {}


def upgrade() -> None:
    build_index("ix_run_work_available_at", "run_work (available_at) where status = 'queued' and not held")


def downgrade() -> None:
    op.execute("drop index ix_run_work_available_at")
