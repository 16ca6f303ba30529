"""The upgrade of a database to the newest schema, safe with any number of processes starting at once."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, create_engine, text

import models
from migrations import versions
from models.runs.history import AHEAD

# A constant that nothing else in the database uses: the migrating process holds this lock.
_LOCK = 0x7665_6465_7474_65
_OLDEST: str | None = None
"""The oldest revision that this release works with; None for the newest alone, which is `head`."""


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


@cache
def _former() -> dict[str, str | None]:
    """Return the revisions that this code knows, each with the one before it."""
    names = [module.name for module in pkgutil.iter_modules(versions.__path__)]
    revisions = [importlib.import_module(f"{versions.__name__}.{name}") for name in names]
    return {one.revision: one.down_revision for one in revisions}


@cache
def head() -> str:
    """Return the newest revision that this code knows: the one that no other follows."""
    (newest,) = _former().keys() - _former().values()
    return newest


def knows_revision(revision: str) -> bool:
    """Return whether this code has a migration of this name."""
    return revision in _former()


def schema_problem(found: str | None) -> str | None:
    """Return why this release cannot use a database at this revision, with the remedy; None if it can.

    Args:
        found: the revision of the database; None if it was never migrated.
    """
    newest, oldest = head(), _OLDEST or head()
    one = newest
    while one != found and one != oldest:
        one = _former()[one] or oldest
    if one == found:
        return None
    wanted = newest if oldest == newest else f"{oldest} to {newest}"
    if found is not None and found not in _former():
        remedy = "Start the release that the database was migrated for."
    else:
        remedy = "Run `vedette migrate`."
    return f"The schema of the database is at {found or 'no revision'}; this release needs {wanted}. {remedy}"


def upgrade(url: str) -> None:
    """Migrate the database at `url` to the newest schema; a second migrator waits, then finds it done.

    After a long stop this also creates the partitions of the coming weeks, before any process writes to them.
    """
    _run(url, _upgrade)


def downgrade(url: str, revision: str) -> None:
    """Revert the database at `url` to `revision`; `base` is empty."""
    _run(url, lambda config: command.downgrade(config, revision))


def _upgrade(config: Config) -> None:
    command.upgrade(config, "head")
    connection: Connection = config.attributes["connection"]
    connection.execute(text("select make_history_partitions(:ahead)"), {"ahead": AHEAD})


def _run(url: str, migrate: Callable[[Config], None]) -> None:
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            connection.execute(text("select pg_advisory_lock(:lock)"), {"lock": _LOCK})
            connection.commit()
            try:
                migrate(configuration(connection))
                connection.commit()
            finally:
                connection.rollback()
                connection.execute(text("select pg_advisory_unlock(:lock)"), {"lock": _LOCK})
                connection.commit()
    finally:
        engine.dispose()
