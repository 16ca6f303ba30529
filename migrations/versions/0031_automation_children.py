"""The references between workflows and their number per account, readable without definitions."""

from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

_CHILDREN = """
create table automation_children (
  automation_id uuid not null
    constraint fk_automation_children_automation_id_automations references automations (id) on delete cascade,
  child_id uuid not null, account_id uuid not null,
  constraint pk_automation_children primary key (automation_id, child_id)
)
"""
# Definitions that name no other workflow are skipped before parsing.
_BACKFILL = r"""
insert into automation_children (automation_id, child_id, account_id)
select distinct a.id, (s->'config'->>'workflow_id')::uuid, a.account_id
from automations a
join automation_versions v on v.automation_id = a.id and v.version = a.version
  and v.definition::text like '%"workflow_id"%',
json_array_elements(case json_typeof(v.definition->'steps') when 'array' then v.definition->'steps' end) s
where a.deleted_at is null and s->>'type' = 'workflow'
  and s->'config'->>'workflow_id' ~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$'
"""


def upgrade() -> None:
    op.execute(_CHILDREN)
    op.execute(_BACKFILL)
    op.execute("create index ix_automations_live on automations (account_id) where deleted_at is null")


def downgrade() -> None:
    op.execute("drop index ix_automations_live")
    op.execute("drop table automation_children")
