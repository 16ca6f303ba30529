"""Workflows, workers, and builds that other tests do not see."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from uuid import uuid4

import pytest

from database import Database
from models.runs import builds
from models.runs.builds import BuildState
from tests.automations.conftest import client, new_account, new_target, nothing_waits, open_settings

__all__ = ["client", "new_account", "new_target", "nothing_waits", "open_settings"]


@pytest.fixture
async def build(database: Database) -> AsyncGenerator[str]:
    """A build that nobody has registered."""
    name = f"build-{uuid4().hex}"
    yield name
    async with database.connection() as connection:
        await connection.execute("delete from builds where name = %s", (name,))
        await builds.set_state(connection, builds.UNNAMED, BuildState.ADMITTED)
