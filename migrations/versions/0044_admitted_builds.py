"""Builds of the code that may take work, so that an operator can try a release, or drain it."""

from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None

works_from = "0043"
locks = {"shifts": "AccessExclusiveLock"}


def upgrade() -> None:
    op.execute(
        """
        create table builds (
          name text primary key,
          state text not null,
          share smallint not null default 100,
          first_seen_at timestamptz not null default now(),
          changed_at timestamptz not null default now(),
          constraint state check (state in ('admitted', 'waiting', 'drained')),
          constraint share check (share between 1 and 100)
        )
        """
    )
    op.execute("insert into builds (name, state) values ('unnamed', 'admitted')")
    op.execute("alter table shifts add build text not null default 'unnamed'")


def downgrade() -> None:
    op.execute("alter table shifts drop build")
    op.execute("drop table builds")
