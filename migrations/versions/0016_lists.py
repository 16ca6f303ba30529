"""Contact lists and their targets."""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_LISTS = """
create table lists (
  id uuid not null constraint pk_lists primary key,
  account_id uuid not null
    constraint fk_lists_account_id_accounts references accounts (id) on delete cascade,
  name text not null, type text not null, target_count integer not null,
  created_at timestamptz not null, updated_at timestamptz not null,
  constraint ck_lists_type check (type in ('email', 'phone', 'domain', 'ip', 'company', 'darkweb'))
);
create index ix_lists_account_id_id on lists (account_id, id);
create table list_targets (
  list_id uuid not null constraint fk_list_targets_list_id_lists references lists (id) on delete cascade,
  id bigint not null generated always as identity,
  target text collate "C" not null,
  constraint pk_list_targets primary key (list_id, id),
  constraint uq_list_targets_list_id_target unique (list_id, target)
)
"""


def upgrade() -> None:
    op.execute(_LISTS)


def downgrade() -> None:
    op.execute("drop table list_targets")
    op.execute("drop table lists")
