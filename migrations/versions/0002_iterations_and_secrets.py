"""Items of iterating steps, restarted runs, the engine's failures, secrets of workflows."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "run_step_items",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("step_id", sa.Text(), nullable=False),
        sa.Column("item", sa.SmallInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("output", sa.JSON(), nullable=True),
        sa.Column("error", sa.JSON(), nullable=True),
        sa.Column("attempts", sa.SmallInteger(), nullable=False),
        sa.Column("credits_used", sa.BigInteger(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name="fk_run_step_items_run_id_runs", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "step_id", "item", name="pk_run_step_items"),
    )
    op.create_table(
        "secrets",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_secrets_account_id_accounts", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("account_id", "name", name="pk_secrets"),
    )
    op.add_column("runs", sa.Column("restarted_from", sa.Uuid(), nullable=True))
    op.add_column("runs", sa.Column("engine_failures", sa.SmallInteger(), server_default="0", nullable=False))
    op.add_column(
        "automation_versions", sa.Column("secrets", ARRAY(sa.Text()), server_default="{}", nullable=False)
    )


def downgrade() -> None:
    op.drop_column("automation_versions", "secrets")
    op.drop_column("runs", "engine_failures")
    op.drop_column("runs", "restarted_from")
    op.drop_table("secrets")
    op.drop_table("run_step_items")
