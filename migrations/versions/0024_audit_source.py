"""The source of each change in the audit log."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("audit_log", sa.Column("source", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("audit_log", "source")
