"""Counters of runs, updated with each change, so that counting needs no scan."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_COUNT = """
create function count_runs() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        insert into run_counts (account_id, automation_id, status, runs)
        select account_id, automation_id, status, count(*) from changed
        group by account_id, automation_id, status;
    elsif tg_op = 'DELETE' then
        insert into run_counts (account_id, automation_id, status, runs)
        select account_id, automation_id, status, -count(*) from former
        group by account_id, automation_id, status;
    else
        insert into run_counts (account_id, automation_id, status, runs)
        select account_id, automation_id, status, sum(n) from (
            select account_id, automation_id, status, -1 as n from former
            union all select account_id, automation_id, status, 1 from changed
        ) as moved
        group by account_id, automation_id, status having sum(n) <> 0;
    end if;
    return null;
end $$
"""
_SEEN = {
    "insert": "new table as changed",
    "update": "old table as former new table as changed",
    "delete": "old table as former",
}


def upgrade() -> None:
    op.create_table(
        "run_counts",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("automation_id", sa.Uuid(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("runs", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_run_counts_of", "run_counts", ["account_id", "automation_id", "status"])
    # Nothing may change between the count and the triggers.
    op.execute("lock table runs in share row exclusive mode")
    op.execute(
        "insert into run_counts (account_id, automation_id, status, runs)"
        " select account_id, automation_id, status, count(*) from runs"
        " group by account_id, automation_id, status"
    )
    op.execute(_COUNT)
    for change, seen in _SEEN.items():
        op.execute(
            f"create trigger count_{change} after {change} on runs referencing {seen}"
            " for each statement execute function count_runs()"
        )


def downgrade() -> None:
    for change in _SEEN:
        op.execute(f"drop trigger count_{change} on runs")
    op.execute("drop function count_runs()")
    op.drop_table("run_counts")
