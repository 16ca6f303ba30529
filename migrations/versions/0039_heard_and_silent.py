"""Monitors that follow the pace of their sources, and list the silent ones."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("targets_partial", "first_heard_records", "skipped_runs"):
        op.add_column("monitor_runs", sa.Column(name, sa.Integer(), nullable=False, server_default="0"))
    op.add_column("monitor_runs", sa.Column("sources_silent", JSONB(), nullable=False, server_default="[]"))
    op.add_column(
        "monitor_runs", sa.Column("sources_heard", ARRAY(sa.Text()), nullable=False, server_default="{}")
    )
    for name in ("ends_by", "resumes_at"):
        op.add_column("monitor_runs", sa.Column(name, sa.DateTime(timezone=True)))
    op.add_column("monitor_results", sa.Column("silent", sa.JSON()))
    op.add_column("monitor_results", sa.Column("first_heard", sa.JSON()))
    op.add_column("monitor_baselines", sa.Column("unheard_since", sa.DateTime(timezone=True)))
    op.create_table(
        "monitor_sources",
        sa.Column(
            "monitor_id", sa.Uuid(), sa.ForeignKey("monitors.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("source", sa.Text(), primary_key=True),
        sa.Column("heard_at", sa.DateTime(timezone=True)),
        sa.Column("silent_since", sa.DateTime(timezone=True)),
        sa.Column("why", sa.Text()),
        sa.Column("silent_runs", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("emitted_at", sa.DateTime(timezone=True)),
    )

    # The field is new, and tolerates 100 by default. As in 0038, monitors that name their fields stay exact.
    op.execute(
        "update monitors set tolerance = ('{\"location.accuracy_km\": 0}'::jsonb || tolerance::jsonb)::json"
        " where monitor_type = 'ip' and cardinality(tracked_fields) > 0"
    )


def downgrade() -> None:
    op.drop_table("monitor_sources")
    op.drop_column("monitor_baselines", "unheard_since")
    for name in ("first_heard", "silent"):
        op.drop_column("monitor_results", name)
    for name in (
        "resumes_at", "ends_by", "sources_heard", "sources_silent", "skipped_runs", "first_heard_records",
        "targets_partial",
    ):  # fmt: skip
        op.drop_column("monitor_runs", name)
