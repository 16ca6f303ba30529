"""Another separator in the ids of calls: runs that were accepted before keep theirs."""

from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "create table former_call_ids (runs_before uuid not null constraint pk_former_call_ids primary key)"
    )
    op.execute("insert into former_call_ids (runs_before) values (first_id(clock_timestamp()))")


def downgrade() -> None:
    op.execute("drop table former_call_ids")
