"""A table that is written to see whether the database can write."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "write_probe",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("filling", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    # Stored in the table's own pages: neither compressed nor moved elsewhere.
    op.execute("alter table write_probe alter column filling set storage plain")


def downgrade() -> None:
    op.drop_table("write_probe")
