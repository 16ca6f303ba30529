"""A count of suspects per version when a worker is lost, and each worker's connection to Temporal."""

from alembic import op

import sql

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("alter table workers add column reaches_temporal boolean not null default false")
    op.execute("drop function end_shift_1")
    op.execute(sql.read_function("end_shift_2"))


def downgrade() -> None:
    op.execute("drop function end_shift_2")
    op.execute(sql.read_function("end_shift_1"))
    op.execute("alter table workers drop column reaches_temporal")
