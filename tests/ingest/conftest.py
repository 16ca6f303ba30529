"""Workflows that events are for, and how many runs came of them."""

from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from database import Database
from tests.automations.conftest import client, new_account, new_target, open_settings

__all__ = ["client", "new_account", "new_target", "open_settings"]

RunsOf = Callable[[UUID], Awaitable[int]]


@pytest.fixture
def runs_of(database: Database) -> RunsOf:
    async def count(automation_id: UUID) -> int:
        async with database.connection() as connection:
            cursor = await connection.execute(
                "select count(*)::int as n from runs where automation_id = %s", (automation_id,)
            )
            row = await cursor.fetchone()
        return row["n"] if row else 0

    return count
