"""The full progress of parked runs, and the cost of unfinished ones."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.alter_column("runs", "pauses", new_column_name="progress")
    op.execute(
        "update runs set progress = json_build_object('pauses', progress, 'began',"
        " (select json_object_agg(p.key, p.value->>'since') from json_each(progress) as p))"
        " where progress is not null"
    )
    # From now on a charge is added when it is made.
    op.execute(
        "update runs r set credits_used ="
        " coalesce((select sum(s.credits_used) from run_steps s where s.run_id = r.id), 0)"
        " where completed_at is null"
    )


def downgrade() -> None:
    op.execute("update runs set progress = progress->'pauses' where progress is not null")
    op.alter_column("runs", "progress", new_column_name="pauses")
