"""Bulk jobs: the given rows, the lookup settings, and the results."""

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_JOBS = """
create table jobs (
  id uuid not null constraint pk_jobs primary key,
  account_id uuid not null
    constraint fk_jobs_account_id_accounts references accounts (id) on delete cascade,
  key_id uuid, name text, type text not null, fields text[], status text not null,
  header text[] not null, total_rows integer not null, invalid_rows integer not null,
  queries integer not null, credits_held bigint not null,
  processed_rows integer not null default 0, failed_rows integer not null default 0,
  credits_used bigint not null default 0, error json,
  paced_at timestamptz, paced_rows integer not null default 0,
  mark_at timestamptz, mark_rows integer not null default 0,
  progressed_at timestamptz, resumes_at timestamptz,
  created_at timestamptz not null, started_at timestamptz, completed_at timestamptz,
  begun_at timestamptz, probed_at timestamptz, deleted_at timestamptz,
  constraint ck_jobs_status check (status in ('queued', 'running', 'completed', 'failed', 'cancelled'))
) with (fillfactor = 50);
create index ix_jobs_account_id_id on jobs (account_id, id);
create index ix_jobs_unfinished on jobs (account_id, id) where completed_at is null;
create index ix_jobs_completed_at on jobs (completed_at) where completed_at is not null;
create index ix_jobs_deleted on jobs (id) where deleted_at is not null
"""
_ROWS = """
create table job_rows (
  job_id uuid not null, position integer not null, cells json not null, query integer, error json,
  constraint pk_job_rows primary key (job_id, position)
);
create table job_chunks (
  job_id uuid not null, number integer not null, targets text[] not null, row_counts integer[] not null,
  constraint pk_job_chunks primary key (job_id, number)
);
create table job_answers (
  job_id uuid not null, query integer not null, data json, partial boolean not null, error json,
  constraint pk_job_answers primary key (job_id, query)
)
"""
_TABLES = ("job_answers", "job_chunks", "job_rows", "jobs")


def upgrade() -> None:
    op.execute(_JOBS)
    op.execute(_ROWS)


def downgrade() -> None:
    for table in _TABLES:
        op.execute(f"drop table {table}")
