"""Workers note from where they connect, so that the healthcheck of a container finds its own."""

from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("alter table workers add address inet default inet_client_addr()")


def downgrade() -> None:
    op.execute("alter table workers drop address")
