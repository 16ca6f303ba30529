"""Bring a database to the newest schema, safely however many processes start at once."""

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
from models.history import AHEAD

# Any constant that nothing else in the database uses: whoever migrates holds it.
_LOCK = 0x7665_6465_7474_65


def load_tables() -> None:
    """Import every noun, so that its table stands in `SQLModel.metadata`."""
    for module in pkgutil.walk_packages(models.__path__, "models."):
        importlib.import_module(module.name)


def configuration(connection: Connection | None = None) -> Config:
    """Alembic's configuration, in code: there is nothing to edit in it."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


@cache
def head() -> str:
    """The newest revision that this code knows: the one that no other follows."""
    names = [module.name for module in pkgutil.iter_modules(versions.__path__)]
    revisions = [importlib.import_module(f"{versions.__name__}.{name}") for name in names]
    (newest,) = {one.revision for one in revisions} - {one.down_revision for one in revisions}
    return newest


def upgrade(url: str) -> None:
    """Migrate the database at `url` to the newest schema; a second migrator waits, then finds it done.

    After a long stop it also has the partitions of the weeks to come, before anybody writes to them.
    """
    _run(url, _upgrade)


def downgrade(url: str, revision: str) -> None:
    """Take the database at `url` back to `revision`; `base` is empty."""
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
