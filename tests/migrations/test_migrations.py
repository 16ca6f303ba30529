"""The migrations make exactly the tables that the code declares, however often and from wherever they run."""

import asyncio
from collections.abc import AsyncGenerator
from uuid import uuid4

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine
from sqlmodel import SQLModel

from embedded.postgres import Postgres
from migrations.upgrade import downgrade, head, load_tables, upgrade
from models.history import is_partition


@pytest.fixture
async def empty(postgres: Postgres) -> AsyncGenerator[str]:
    """An empty database."""
    name = f"empty_{uuid4().hex}"
    async with await psycopg.AsyncConnection.connect(postgres.url, autocommit=True) as connection:
        await connection.execute(f"create database {name}")  # pyright: ignore[reportArgumentType]
    yield postgres.url.replace("/vedette?", f"/{name}?", 1)
    async with await psycopg.AsyncConnection.connect(postgres.url, autocommit=True) as connection:
        await connection.execute(f"drop database {name} with (force)")  # pyright: ignore[reportArgumentType]


def differences(url: str) -> list[object]:
    load_tables()
    engine = create_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "compare_type": True,
                "compare_server_default": True,
                "include_name": lambda name, kind, _: kind != "table" or not is_partition(name),  # pyright: ignore[reportUnknownLambdaType]
            },
        )
        found = compare_metadata(context, SQLModel.metadata)
    engine.dispose()
    return list(found)


async def tables(url: str) -> set[str]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        cursor = await connection.execute(
            "select table_name from information_schema.tables where table_schema = 'public'"
        )
        return {row[0] for row in await cursor.fetchall()}


async def version(url: str) -> str:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        cursor = await connection.execute("select version_num from alembic_version")
        row = await cursor.fetchone()
    assert row is not None
    return row[0]


async def test_a_migrated_database_is_what_the_code_declares(empty: str) -> None:
    await asyncio.to_thread(upgrade, empty)
    assert await asyncio.to_thread(differences, empty) == []
    assert await version(empty) == head()


async def test_going_back_and_forth_leaves_nothing_behind(empty: str) -> None:
    await asyncio.to_thread(upgrade, empty)
    await asyncio.to_thread(downgrade, empty, "base")
    assert await tables(empty) == {"alembic_version"}
    await asyncio.to_thread(upgrade, empty)
    assert await asyncio.to_thread(differences, empty) == []


async def test_many_processes_may_migrate_at_once(empty: str) -> None:
    await asyncio.gather(*(asyncio.to_thread(upgrade, empty) for _ in range(4)))
    assert await version(empty) == head()
