"""Values of events by which runs are found."""

from alembic import op

revision = "0050"
down_revision = "0049"
branch_labels = None
depends_on = None

works_from = "0043"
locks = {}


def upgrade() -> None:
    op.execute(
        """
        create table run_search_values (
          account_id uuid not null, value text collate "C" not null, run_id uuid not null,
          constraint pk_run_search_values primary key (account_id, value, run_id)
        )
        """
    )
    op.execute("create index ix_run_search_values_run_id on run_search_values (run_id)")


def downgrade() -> None:
    op.execute("drop table run_search_values")
