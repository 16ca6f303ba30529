"""Indexes of tables that may be large, built while others write."""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

_INVALID = text("select 1 from pg_index where indexrelid = to_regclass(:name) and not indisvalid")


def build_index(name: str, definition: str) -> None:
    """Build an index concurrently; `definition`: what follows `on`.

    Such a build has no transaction, so what the migration did before is committed. Call this first: a
    migration that is tried again keeps an index that is whole, and builds one anew that was interrupted.
    Nobody waits for a build, so it may wait for long: for each transaction that is older.
    """
    with op.get_context().autocommit_block():
        connection = op.get_bind()
        lock_timeout = connection.scalar(text("show lock_timeout"))
        connection.execute(text("set lock_timeout = 0"))
        if connection.scalar(_INVALID, {"name": name}):
            connection.execute(text(f"drop index concurrently {name}"))
        connection.execute(text(f"create index concurrently if not exists {name} on {definition}"))
        connection.execute(text(f"set lock_timeout = '{lock_timeout}'"))
