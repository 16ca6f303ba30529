"""How many connections the installation may make, and whether its server has room for them."""

from __future__ import annotations

from database import Database
from models.identifiers import new_id
from models.installation import processes
from models.installation.connections import OF_API, OF_WORKER, ConnectionUsage, count_connections


async def test_they_are_those_of_the_processes_that_live(database: Database) -> None:
    async with database.connection() as connection:
        for name in ("api here/1", "api here/2", "worker here/3", "data here/4"):
            await processes.announce(connection, new_id(), name, [])
        await connection.execute(
            "update processes set seen_at = now() - interval '1 min' where name = 'api here/2'"
        )
        usage = await count_connections(connection)
    assert (usage.apis, usage.workers, usage.expected) == (1, 1, OF_API + OF_WORKER)
    assert usage.others >= 1  # this one, which is named as a test


async def test_those_of_the_service_are_told_from_others(database: Database, database_url: str) -> None:
    async with database.connection() as connection:
        before = await count_connections(connection)
        async with await Database(database_url, name="vedette worker").connect_dedicated():
            after = await count_connections(connection)
    assert after.ours == before.ours + 1


def test_they_fit_beside_others_or_they_do_not() -> None:
    assert ConnectionUsage(2, 2, 0, 50, 90).fits
    assert not ConnectionUsage(2, 2, 0, 51, 90).fits
