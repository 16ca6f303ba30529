"""The migrations make exactly the tables that the code declares, however often and from wherever they run."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any, LiteralString

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from psycopg.rows import DictRow, dict_row
from psycopg.sql import SQL, Identifier
from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError
from sqlmodel import SQLModel

from migrations import upgrade as upgrading
from migrations.revisions import head
from migrations.upgrade import downgrade, load_tables, upgrade
from models.accounts import accounts
from models.accounts.accounts import NewAccount
from models.monitors.defaults import DEFAULTS
from models.monitors.tolerances import effective_tolerances
from models.runs.history import is_partition

WRITE = SQL("lock table {} in row exclusive mode")
# Of this table alone: the build of another index waits for a moment, too, for the statement that looks.
BUILD: LiteralString = "state = 'active' and query like 'create index concurrently % on {table} (%'"
Connection = psycopg.AsyncConnection[tuple[Any, ...]]


def differences(url: str) -> list[object]:
    load_tables()
    engine = create_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "compare_type": True,
                "compare_server_default": True,
                "version_table": "schema_revision",
                "include_name": lambda name, kind, _: (  # pyright: ignore[reportUnknownLambdaType]
                    kind != "table" or (name != "alembic_version" and not is_partition(name))  # pyright: ignore[reportUnknownArgumentType]
                ),
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
        cursor = await connection.execute("select version_num from schema_revision")
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
    assert await tables(empty) == {"alembic_version", "schema_revision"}
    await asyncio.to_thread(upgrade, empty)
    assert await asyncio.to_thread(differences, empty) == []


async def test_many_processes_may_migrate_at_once(empty: str) -> None:
    await asyncio.gather(*(asyncio.to_thread(upgrade, empty) for _ in range(4)))
    assert await version(empty) == head()


async def test_monitors_that_name_what_they_track_still_hear_of_every_difference(empty: str) -> None:
    await asyncio.to_thread(upgrade, empty)
    await asyncio.to_thread(downgrade, empty, "0034")
    connecting = psycopg.AsyncConnection[DictRow].connect(empty, row_factory=dict_row)
    async with await connecting as connection, connection.transaction():
        await accounts.create_account(connection, NewAccount("a@example.com", "-"))
        await connection.execute(
            "insert into monitors (id, account_id, name, status, monitor_type, frequency, timezone,"
            " change_detection, tracked_fields, ignored_fields, tolerance, target_count, next_run_at,"
            " created_at, updated_at) select gen_random_uuid(), accounts.id, m.name, 'active', type, 'daily',"
            " 'UTC', 'diff_only', tracked, '{}', '{\"threat.total_reports\": 5}', 0, now(), now(), now()"
            " from accounts, (values ('all', 'ip', '{}'::text[]), ('some', 'ip', '{threat}'),"
            " ('sites', 'domain', '{hosting}')) as m (name, type, tracked)"
        )
    await asyncio.to_thread(upgrade, empty)
    async with await psycopg.AsyncConnection.connect(empty) as connection:
        cursor = await connection.execute("select name, tolerance from monitors")
        tolerances = dict(await cursor.fetchall())
    assert tolerances["all"] == {"threat.total_reports": 5}
    assert effective_tolerances("ip", tolerances["some"]) == {
        **dict.fromkeys(DEFAULTS["ip"].tolerances, 0),
        "threat.total_reports": 5,
    }
    exact = {path for path in DEFAULTS["domain"].tolerances if path.startswith("hosting.")}
    assert {path for path, amount in tolerances["sites"].items() if amount == 0} >= exact


async def test_a_database_of_before_rolling_releases_keeps_its_revision_for_them(empty: str) -> None:
    await asyncio.to_thread(upgrade, empty)
    await asyncio.to_thread(downgrade, empty, "0043")
    async with await psycopg.AsyncConnection.connect(empty, autocommit=True) as connection:
        await connection.execute("drop table schema_revision")
    await asyncio.to_thread(upgrade, empty)
    assert await version(empty) == head()
    async with await psycopg.AsyncConnection.connect(empty) as connection:
        row = await (await connection.execute("select version_num from alembic_version")).fetchone()
    assert row == ("0043",)


async def test_a_release_leaves_a_newer_schema_that_serves_it_alone(empty: str) -> None:
    await asyncio.to_thread(upgrade, empty)
    async with await psycopg.AsyncConnection.connect(empty, autocommit=True) as connection:
        await connection.execute("update schema_revision set version_num = '9999'")
        await connection.execute("update alembic_version set version_num = %s", (head(),))
    await asyncio.to_thread(upgrade, empty)
    assert await version(empty) == "9999"


async def test_a_migration_lets_others_through_while_somebody_holds_a_table(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrading, "_LOCK_SECONDS", 0.2)
    await asyncio.to_thread(upgrade, empty)
    await asyncio.to_thread(downgrade, empty, "0043")
    async with (
        await psycopg.AsyncConnection.connect(empty) as holder,
        await psycopg.AsyncConnection.connect(empty, autocommit=True) as other,
    ):
        await holder.execute("select from shifts")
        migrating = asyncio.create_task(asyncio.to_thread(upgrade, empty))
        waits = "select 1 from pg_locks where relation = 'shifts'::regclass and not granted"
        for waited in (True, False, True):
            async with asyncio.timeout(20):
                while bool(await (await other.execute(waits)).fetchone()) is not waited:
                    assert not migrating.done(), migrating.exception()
                    await asyncio.sleep(0.02)
        await holder.rollback()
        await migrating
    assert await version(empty) == head()


@contextlib.asynccontextmanager
async def building(url: str, table: LiteralString) -> AsyncGenerator[tuple[Connection, asyncio.Task[None]]]:
    """Yield a migration whose build of an index waits for a writer of the table, and a connection beside."""
    await asyncio.to_thread(upgrade, url)
    await asyncio.to_thread(downgrade, url, "0045")
    waits = f"select from pg_stat_activity where wait_event_type = 'Lock' and {BUILD.format(table=table)}"
    async with (
        await Connection.connect(url, autocommit=True) as other,
        await Connection.connect(url) as holder,
    ):
        await holder.execute(WRITE.format(Identifier(table)))
        migrating = asyncio.create_task(asyncio.to_thread(upgrade, url))
        async with asyncio.timeout(20):
            while (await other.execute(waits)).rowcount == 0:
                assert not migrating.done(), migrating.exception()
                await asyncio.sleep(0.02)
        yield other, migrating
    await asyncio.wait([migrating])


@pytest.mark.parametrize("table", ["monitor_runs", "audit_log"])
async def test_while_an_index_is_built_others_write(empty: str, table: LiteralString) -> None:
    async with building(empty, table) as (other, _):
        await other.execute("set lock_timeout = '100ms'")
        async with other.transaction():
            await other.execute(WRITE.format(Identifier(table)))
    assert await version(empty) == head()


async def test_an_index_whose_build_was_interrupted_is_built_anew(empty: str) -> None:
    async with building(empty, "audit_log") as (other, migrating):
        build = BUILD.format(table="audit_log")
        await other.execute(f"select pg_cancel_backend(pid) from pg_stat_activity where {build}")
        with pytest.raises(OperationalError, match="canceling"):
            await migrating
        invalid = "select indexrelid::regclass::text from pg_index where not indisvalid"
        assert await (await other.execute(invalid)).fetchall() == [("ix_audit_log_definitions",)]
    await asyncio.to_thread(upgrade, empty)
    assert await asyncio.to_thread(differences, empty) == []
    async with await Connection.connect(empty) as connection:
        assert await (await connection.execute(invalid)).fetchall() == []
