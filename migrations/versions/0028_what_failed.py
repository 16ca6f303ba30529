"""The failures of a run: the failed items of its steps, and the earlier attempts at its calls."""

from importlib import import_module

from alembic import op

import sql

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "alter table run_steps add column items_total smallint, add column items_failed smallint,"
        " add column attempt_log json"
    )
    op.execute(_replacing(sql.read_function("run_event")))


def downgrade() -> None:
    former: str = import_module("migrations.versions.0014_events").RUN_EVENT
    op.execute(_replacing(former))
    op.execute(
        "alter table run_steps drop column items_total, drop column items_failed, drop column attempt_log"
    )


def _replacing(function: str) -> str:
    return function.replace("create function", "create or replace function", 1)
