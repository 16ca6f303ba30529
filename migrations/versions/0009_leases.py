"""Leases of batches, and a narrow row for each run that has not ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "batches",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("executor", sa.Uuid(), nullable=True),
        sa.Column("worker_id", sa.Uuid(), nullable=True),
        sa.Column("beat_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        postgresql_with={"fillfactor": 50},
    )
    op.create_table(
        "run_work",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("lane_id", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("begun", sa.Boolean(), nullable=False),
        sa.Column("available_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("batch_id", sa.Uuid(), nullable=True),
        sa.Column("wake_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("woken", sa.Boolean(), nullable=False),
        sa.Column("progress", sa.JSON(), nullable=True),
        sa.Column("lost", sa.SmallInteger(), server_default="0", nullable=False),
        sa.CheckConstraint("state in ('queued', 'running', 'waiting')", name="state"),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["lane_id"], ["lanes.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id"),
        postgresql_with={"fillfactor": 50, "autovacuum_vacuum_scale_factor": 0.01},
    )
    op.create_index(
        "ix_run_work_batch", "run_work", ["batch_id"], postgresql_where=sa.text("batch_id is not null")
    )
    op.add_column("runs", sa.Column("output_of", sa.Text(), nullable=True))
    op.add_column(
        "run_steps", sa.Column("gathered", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    )


def downgrade() -> None:
    op.drop_column("run_steps", "gathered")
    op.drop_column("runs", "output_of")
    op.drop_table("run_work")
    op.drop_table("batches")
