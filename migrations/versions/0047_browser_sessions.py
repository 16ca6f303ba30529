"""Sessions of browsers by a cookie, and links that sign one in once."""

from alembic import op

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None

works_from = "0043"
locks = {"accounts": "ShareRowExclusiveLock", "sessions": "AccessExclusiveLock"}


def upgrade() -> None:
    op.execute(
        "alter table sessions add column cookie_hash bytea, add column proven_at timestamptz,"
        " add column user_agent text"
    )
    op.execute(
        """
        create table sign_in_links (
          account_id uuid not null
            constraint fk_sign_in_links_account_id_accounts references accounts (id) on delete cascade,
          hash bytea not null, expires_at timestamptz not null,
          constraint pk_sign_in_links primary key (account_id, hash)
        )
        """
    )


def downgrade() -> None:
    op.execute("drop table sign_in_links")
    op.execute("delete from sessions where cookie_hash is not null")
    op.execute("alter table sessions drop column cookie_hash, drop column proven_at, drop column user_agent")
