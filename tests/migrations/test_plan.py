"""`vedette migrate --plan` says what a migration would do and lock, and changes nothing."""

from __future__ import annotations

import asyncio

from migrations.revisions import FIRST_ROLLING, list_migrations
from migrations.upgrade import downgrade, upgrade
from services.operator.migration_plan import plan_migration


async def test_the_plan_of_an_empty_database_is_every_migration(empty: str) -> None:
    plan = await plan_migration(empty)
    assert [one.revision for one in plan] == list(list_migrations())
    assert plan[0].locks is None, "migrations of before releases ran side by side need all processes stopped"


async def test_a_plan_names_what_is_locked_with_its_size_and_leaves_it_alone(empty: str) -> None:
    await asyncio.to_thread(upgrade, empty)
    assert await plan_migration(empty) == []
    await asyncio.to_thread(downgrade, empty, "0043")
    for _ in range(2):
        first, *_ = await plan_migration(empty)
        assert (first.revision, first.works_from) == (FIRST_ROLLING, "0043")
        assert first.locks is not None
        assert [(lock.table, lock.mode) for lock in first.locks] == [("shifts", "AccessExclusiveLock")]
        assert first.locks[0].bytes > 0
    await asyncio.to_thread(upgrade, empty)
