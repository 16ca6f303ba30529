"""An index for the audit log of an account's workflows."""

from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "create index ix_audit_log_workflows on audit_log (account_id, id)"
        " where target_kind in ('workflow', 'secret')"
    )


def downgrade() -> None:
    op.execute("drop index ix_audit_log_workflows")
