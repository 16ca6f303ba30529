"""The questions of waiting steps to the people who resume them."""

from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "create table run_prompts (run_id uuid not null, step_id text not null, title text, message text,"
        " constraint pk_run_prompts primary key (run_id, step_id))"
    )


def downgrade() -> None:
    op.execute("drop table run_prompts")
