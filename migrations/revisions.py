"""The migrations that this release has, and the schemas that it works with.

Releases run side by side during an upgrade. So a migration expands the schema: the releases before still work
with it. What only they need is removed by a migration of a later release. Each says so by `works_from`, and
names in `locks` what it locks.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import NamedTuple

from migrations import versions
from models.installation.schema import Schema

FIRST_ROLLING = "0044"
"""The first migration that releases before it may outlive; those before it need all processes stopped."""


class Migration(NamedTuple):
    """A migration.

    Attributes:
        title: what it is for, in a sentence.
        works_from: the oldest revision whose releases work with the schema after it.
        locks: the mode of the lock, by each table of before that it locks; None if it does not say.
    """

    revision: str
    former: str | None
    title: str
    works_from: str
    locks: Mapping[str, str] | None


@cache
def list_migrations() -> dict[str, Migration]:
    """Return all migrations by revision, the oldest first."""
    names = [f"{versions.__name__}.{module.name}" for module in pkgutil.iter_modules(versions.__path__)]
    by_former = {
        one.former: one for one in (_read_migration(importlib.import_module(name)) for name in names)
    }
    migrations: dict[str, Migration] = {}
    former = None
    while (one := by_former.get(former)) is not None:
        migrations[one.revision] = one
        former = one.revision
    return migrations


def _read_migration(module: ModuleType) -> Migration:
    title = (module.__doc__ or "").strip().splitlines()[0]
    revision = module.revision
    return Migration(
        revision,
        module.down_revision,
        title,
        getattr(module, "works_from", revision),
        getattr(module, "locks", None),
    )


@cache
def head() -> str:
    """Return the newest revision that this release knows."""
    return list(list_migrations())[-1]


def knows_revision(revision: str) -> bool:
    """Return whether this release has a migration of this name."""
    return revision in list_migrations()


def list_pending(found: Schema | None) -> list[Migration]:
    """Return the migrations that a database lacks, in their order; none if it is of a newer release."""
    migrations = list(list_migrations().values())
    if found is None:
        return migrations
    known = list(list_migrations())
    return migrations[known.index(found.revision) + 1 :] if found.revision in known else []


def schema_problem(found: Schema | None) -> str | None:
    """Return why this release cannot use a database with this schema, with the remedy; None if it can.

    Args:
        found: the schema; None if the database was never migrated.
    """
    if found is None or list_pending(found):
        remedy = "Run `vedette migrate`."
    elif knows_revision(found.works_from):
        return None
    else:
        remedy = "Start the release that the database was migrated for."
    at = "no revision" if found is None else found.revision
    oldest = "" if found is None or found.works_from == at else f", for releases from {found.works_from} on"
    return f"The schema of the database is at {at}{oldest}; this release needs {head()}. {remedy}"
