"""Conditions on changes for monitors and lists. Monitors with tracked fields stay exact."""

import json

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0038"
down_revision = "0036"
branch_labels = None
depends_on = None

# They rotate by default now. As in 0035, monitors that name their fields stay exact.
_ROTATE_BY_DEFAULT = ("hosting.asn", "hosting.asn_name", "hosting.company")


def upgrade() -> None:
    for table in ("monitors", "lists"):
        op.add_column(table, sa.Column("when", JSONB(), nullable=False, server_default="[]"))
    exact = json.dumps(dict.fromkeys(_ROTATE_BY_DEFAULT, 0))
    op.execute(
        f"update monitors set tolerance = ('{exact}'::jsonb || tolerance::jsonb)::json"
        " where monitor_type = 'domain' and cardinality(tracked_fields) > 0"
    )


def downgrade() -> None:
    for table in ("monitors", "lists"):
        op.drop_column(table, "when")
