"""The changes of a version, stored with it. Older versions are compared when first listed."""

from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("alter table automation_versions add column name text, add column changes text[]")


def downgrade() -> None:
    op.execute("alter table automation_versions drop column name, drop column changes")
