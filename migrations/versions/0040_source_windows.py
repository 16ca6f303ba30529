"""Several rate windows per source, with turns for the accounts that wait."""

from alembic import op

import sql

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None

_FUNCTIONS = ("source_place_1", "count_request_1", "admit_request_1")
_TABLES = """
create table source_windows (
  bucket text, seconds integer, moments timestamptz[] not null, totals bigint[] not null,
  forgotten bigint not null, constraint pk_source_windows primary key (bucket, seconds)
) with (fillfactor = 50);
create unlogged table source_turns (
  bucket text, account_id uuid, turn bigint not null, since timestamptz not null,
  ends_at timestamptz not null, constraint pk_source_turns primary key (bucket, account_id)
) with (fillfactor = 50);
alter table source_windows alter moments set storage plain, alter totals set storage plain;
alter table provider_states drop tokens, drop refilled_at, add limited_rate float8 not null default 0;
alter table provider_states alter limited_rate drop default
"""


def upgrade() -> None:
    op.execute(_TABLES)
    for name in _FUNCTIONS:
        op.execute(sql.read_function(name))


def downgrade() -> None:
    op.execute("drop function admit_request_1, count_request_1, source_place_1")
    op.execute("drop table source_windows, source_turns")
    op.execute("truncate provider_states")
    op.execute(
        "alter table provider_states drop limited_rate, add tokens float8 not null,"
        " add refilled_at timestamptz not null"
    )
