"""Workflows and workers for the tests of migrations, and an empty database."""

from collections.abc import AsyncGenerator
from uuid import uuid4

import psycopg
import pytest

from embedded.postgres import Postgres
from tests.automations.conftest import at_work, client, new_account, new_target, open_settings

__all__ = ["at_work", "client", "new_account", "new_target", "open_settings"]


@pytest.fixture
async def empty(postgres: Postgres) -> AsyncGenerator[str]:
    """An empty database."""
    name = f"empty_{uuid4().hex}"
    async with await psycopg.AsyncConnection.connect(postgres.url, autocommit=True) as connection:
        await connection.execute(f"create database {name}")  # pyright: ignore[reportArgumentType]
    yield postgres.url.replace("/vedette?", f"/{name}?", 1)
    async with await psycopg.AsyncConnection.connect(postgres.url, autocommit=True) as connection:
        await connection.execute(f"drop database {name} with (force)")  # pyright: ignore[reportArgumentType]
