"""Replaced ingest tokens, which stay valid for a while."""

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
create table former_ingest_tokens (
  token_hash bytea not null constraint pk_former_ingest_tokens primary key,
  automation_id uuid not null constraint uq_former_ingest_tokens_automation_id unique
    constraint fk_former_ingest_tokens_automation_id_automations
    references automations (id) on delete cascade,
  ends_at timestamptz not null
)
""")


def downgrade() -> None:
    op.execute("drop table former_ingest_tokens")
