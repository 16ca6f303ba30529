"""The connections to the database server."""

from __future__ import annotations

from typing import NamedTuple

from database import Connection


class Connections(NamedTuple):
    """The connections of all clients to the server, and how many it accepts."""

    used: int
    most: int


async def count_connections(connection: Connection) -> Connections:
    """Count the connections to the server; those that it keeps for its administrators do not count."""
    cursor = await connection.execute(
        "select (select sum(numbackends) from pg_stat_database)::int as used,"
        " current_setting('max_connections')::int"
        " - current_setting('superuser_reserved_connections')::int"
        " - current_setting('reserved_connections')::int as most"
    )
    row = await cursor.fetchone()
    assert row is not None
    return Connections(**row)
