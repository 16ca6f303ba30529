"""Addresses from which accounts logged in, so that attackers elsewhere cannot lock the owners out."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "known_addresses",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("network", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("account_id", "network"),
    )
    op.create_index("ix_known_addresses_seen_at", "known_addresses", ["seen_at"])


def downgrade() -> None:
    op.drop_table("known_addresses")
