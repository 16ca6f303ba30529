"""The due times of workflows with a schedule."""

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_TABLE = """
create table automation_schedules (
  automation_id uuid not null constraint pk_automation_schedules primary key
    constraint fk_automation_schedules_automation_id_automations references automations (id)
    on delete cascade,
  account_id uuid not null, schedule json not null, anchor timestamptz not null,
  next_run_at timestamptz, next_runs timestamptz[] not null, scheduled_for timestamptz,
  ended boolean not null default false
) with (fillfactor = 50);
create index ix_automation_schedules_next_run_at on automation_schedules (next_run_at)
  where next_run_at is not null;
create index ix_automation_schedules_unscheduled on automation_schedules (automation_id)
  where scheduled_for is distinct from next_run_at;
create index ix_automation_schedules_ended on automation_schedules (automation_id) where ended
"""


def upgrade() -> None:
    op.execute(_TABLE)


def downgrade() -> None:
    op.execute("drop table automation_schedules")
