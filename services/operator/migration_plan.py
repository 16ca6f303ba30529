"""The plan of a migration: its steps, and the locks that they take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from database import Database
from migrations.revisions import Migration, list_pending, schema_problem
from models.installation.schema import find_schema, measure_tables
from settings import ExitCode, StartError


@dataclass(frozen=True)
class TableLock:
    """A lock that a migration takes.

    Attributes:
        mode: as Postgres calls it.
        rows: of the table, as Postgres estimates.
        bytes: of the table with its indexes.
    """

    table: str
    mode: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class PlannedMigration:
    """A migration that a database lacks.

    Attributes:
        works_from: the oldest revision whose releases work with the schema afterwards.
        locks: what it locks; None for one that needs all processes stopped.
    """

    revision: str
    title: str
    works_from: str
    locks: list[TableLock] | None


async def plan_migration(url: str) -> list[PlannedMigration]:
    """Return the migrations that a database lacks, in their order; change nothing.

    Raises:
        StartError: this release does not work with the schema, and no migration of it mends that.
    """
    async with await Database(url, name="vedette plan", size=1).connect_dedicated() as connection:
        found = await find_schema(connection)
        pending = list_pending(found)
        if not pending and (problem := schema_problem(found)):
            raise StartError(problem, ExitCode.DATABASE)
        locked = {table for one in pending for table in one.locks or ()}
        sizes = await measure_tables(connection, locked)
    return [_plan(one, sizes) for one in pending]


def _plan(migration: Migration, sizes: Mapping[str, tuple[int, int]]) -> PlannedMigration:
    locks = None
    if migration.locks is not None:
        locks = [TableLock(name, mode, *sizes.get(name, (0, 0))) for name, mode in migration.locks.items()]
    return PlannedMigration(migration.revision, migration.title, migration.works_from, locks)
