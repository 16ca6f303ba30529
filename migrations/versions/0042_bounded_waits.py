"""An end to waiting for sources that always refuse, turns for fewer accounts, and jobs' left-out sources."""

from alembic import op

import sql

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("alter table provider_states add refusals integer not null default 0")
    op.execute("alter table jobs add left_out text[] not null default '{}'")
    op.execute(sql.read_function("admit_request_2"))
    op.execute("drop function admit_request_1")


def downgrade() -> None:
    op.execute(sql.read_function("admit_request_1"))
    op.execute("drop function admit_request_2")
    op.execute("alter table jobs drop left_out")
    op.execute("alter table provider_states drop refusals")
