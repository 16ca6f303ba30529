"""Since releases run side by side, a migration locks what it says, and takes nothing from former releases."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
from typing import Any

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection, create_engine, text

from migrations import versions
from migrations.revisions import FIRST_ROLLING, list_migrations
from migrations.upgrade import downgrade, upgrade

ROLLING = [one for one in list_migrations().values() if one.revision >= FIRST_ROLLING]
MODULES = {
    module.revision: module
    for module in (
        importlib.import_module(f"{versions.__name__}.{found.name}")
        for found in pkgutil.iter_modules(versions.__path__)
    )
}
TABLES = """
    select oid::regclass::text as name, relfilenode from pg_class
    where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace
"""
LOCKS = """
    select c.oid::regclass::text as name, l.mode from pg_locks l join pg_class c on c.oid = l.relation
    where l.pid = pg_backend_pid() and c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace
      and not c.relispartition  -- they go with their table, and their names with the week
"""
SIGNATURES = "select oid::regprocedure::text as name from pg_proc where pronamespace = 'public'::regnamespace"
# What reads and writes of others wait for.
BLOCKING = ("ShareLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock")


def _rows(connection: Connection, statement: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in connection.execute(text(statement))]


def _apply(url: str, revision: str) -> tuple[dict[str, str], set[str], set[str]]:
    """Run a migration without its end; return what it locks, what it rewrites, what functions it drops."""
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            files = dict(_rows(connection, TABLES))
            functions = {name for (name,) in _rows(connection, SIGNATURES)}
            connection.rollback()
            context = MigrationContext.configure(connection)
            with Operations.context(context), context.begin_transaction():
                MODULES[revision].upgrade()
                after = dict(_rows(connection, TABLES))
                locks = {n: mode for n, mode in _rows(connection, LOCKS) if n in files and mode in BLOCKING}
                dropped = functions - {name for (name,) in _rows(connection, SIGNATURES)}
                rewritten = {name for name, file in files.items() if after.get(name) != file}
    finally:
        engine.dispose()
    return locks, rewritten, dropped


@pytest.mark.parametrize("migration", ROLLING, ids=lambda one: one.revision)
async def test_a_migration_locks_what_it_says_and_takes_nothing_from_the_releases_it_serves(
    migration: Any, empty: str
) -> None:
    assert migration.locks is not None, "`locks` is missing"
    await asyncio.to_thread(upgrade, empty)
    await asyncio.to_thread(downgrade, empty, migration.former)
    locks, rewritten, dropped = await asyncio.to_thread(_apply, empty, migration.revision)
    assert locks == migration.locks
    assert not rewritten, "these tables are written anew, however large they are"
    if migration.works_from < migration.revision:
        assert not dropped, "former releases call these"


def test_each_release_serves_the_one_before() -> None:
    for one in ROLLING:
        assert one.former is not None and one.works_from <= one.former
