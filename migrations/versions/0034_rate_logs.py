"""Rate limits with logs of admitted requests, so that any window holds at most the stated number."""

from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("truncate rate_windows")
    op.execute(
        "alter table rate_windows drop used, drop opened_at, add asked_at timestamptz not null,"
        " add moments timestamptz[] not null, add totals bigint[] not null, add forgotten bigint not null"
    )
    # A full log has two kilobytes: it stays in the row, uncompressed.
    op.execute("alter table rate_windows alter moments set storage plain, alter totals set storage plain")


def downgrade() -> None:
    op.execute("truncate rate_windows")
    op.execute(
        "alter table rate_windows drop asked_at, drop moments, drop totals, drop forgotten,"
        " add used integer not null, add opened_at timestamptz not null"
    )
