"""The upgrade of a database to the newest schema, safe with any number of processes starting at once."""

from __future__ import annotations

import importlib
import pkgutil
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext, MigrationInfo
from sqlalchemy import Connection, create_engine, inspect, text
from sqlalchemy.exc import OperationalError

import models
from migrations.revisions import knows_revision, list_migrations, schema_problem
from models.installation.schema import SCHEMA, Schema
from models.runs.history import AHEAD

# A constant that nothing else in the database uses: the migrating process holds this lock.
_LOCK = 0x7665_6465_7474_65
_TABLE = "create table if not exists {} (version_num varchar(32) primary key)"
# A migration waits for each lock at most this long, since others wait behind it; then it is tried again.
_LOCK_SECONDS, _LOCK_PAUSE, _LOCK_TRIES = 2.0, 0.5, 60


def load_tables() -> None:
    """Import every noun, so that its table is in `SQLModel.metadata`."""
    for module in pkgutil.walk_packages(models.__path__, "models."):
        importlib.import_module(module.name)


def configuration(connection: Connection | None = None) -> Config:
    """Return Alembic's configuration, made in code; there is no file to edit."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def upgrade(url: str) -> None:
    """Migrate the database at `url` to the newest schema; a second migrator waits, then finds it done.

    After a long stop this also creates the partitions of the coming weeks, before any process writes to them.
    """
    _run(url, _upgrade)


def downgrade(url: str, revision: str) -> None:
    """Revert the database at `url` to `revision`; `base` is empty."""
    _run(url, lambda config: command.downgrade(config, revision))


def record_works_from(
    ctx: MigrationContext, step: MigrationInfo, heads: Collection[str], run_args: Mapping[str, object]
) -> None:
    """Record which releases work with the schema after a step. Alembic calls this in its transaction."""
    connection = ctx.connection
    assert connection is not None
    connection.execute(text(_TABLE.format("alembic_version")))
    connection.execute(text("delete from alembic_version"))
    for revision in heads:
        oldest = list_migrations()[revision].works_from
        connection.execute(text("insert into alembic_version values (:oldest)"), {"oldest": oldest})


def _upgrade(config: Config) -> None:
    connection: Connection = config.attributes["connection"]
    _adopt_revision(connection)
    if not _is_newer(connection):
        command.upgrade(config, "head")
    connection.execute(text("select make_history_partitions(:ahead)"), {"ahead": AHEAD})


def _adopt_revision(connection: Connection) -> None:
    """Take over the revision that releases of before 0044 recorded in Alembic's own table."""
    if inspect(connection).has_table("alembic_version"):
        connection.execute(text(_TABLE.format("schema_revision")))
        connection.execute(
            text(
                "insert into schema_revision select version_num from alembic_version"
                " where not exists (select from schema_revision)"
            )
        )
    connection.commit()


def _is_newer(connection: Connection) -> bool:
    """Return whether a newer release has migrated the database, in a way that serves this one too."""
    there = inspect(connection).has_table("schema_revision")
    row = connection.execute(text(SCHEMA)).mappings().one_or_none() if there else None
    connection.commit()
    return row is not None and not knows_revision(row["revision"]) and schema_problem(Schema(**row)) is None


def _run(url: str, migrate: Callable[[Config], None]) -> None:
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            # A statement that waits for the lock would have a snapshot, for which builds of indexes wait.
            while not connection.scalar(text("select pg_try_advisory_lock(:lock)"), {"lock": _LOCK}):
                connection.rollback()
                time.sleep(_LOCK_PAUSE)
            connection.execute(text(f"set lock_timeout = '{1000 * _LOCK_SECONDS:.0f}ms'"))
            connection.commit()
            try:
                _retry_locked(connection, migrate)
            finally:
                connection.rollback()
                connection.execute(text("select pg_advisory_unlock(:lock)"), {"lock": _LOCK})
                connection.commit()
    finally:
        engine.dispose()


def _retry_locked(connection: Connection, migrate: Callable[[Config], None]) -> None:
    """Migrate; where others hold a lock for long, let them through and try again. Finished steps stay."""
    for tries in range(1, _LOCK_TRIES + 1):
        try:
            migrate(configuration(connection))
            connection.commit()
            return
        except OperationalError as error:
            connection.rollback()
            if not isinstance(error.orig, psycopg.errors.LockNotAvailable) or tries == _LOCK_TRIES:
                raise
            time.sleep(_LOCK_PAUSE)
