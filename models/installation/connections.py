"""The connections of the installation to its server, beside those of others."""

from __future__ import annotations

from typing import NamedTuple

from database import Connection

OF_API, OF_WORKER = 8, 12
"""The most connections of a process, one of which listens."""

_ALIVE_SECONDS = 15


class ConnectionUsage(NamedTuple):
    """The use of the server's connections.

    Attributes:
        apis: the number of live API processes.
        workers: the number of live workers.
        ours: the number of connections of the service.
        others: the number of all other connections.
        room: the number of connections that the server grants to all together.
    """

    apis: int
    workers: int
    ours: int
    others: int
    room: int

    @property
    def expected(self) -> int:
        """The most connections that the live processes make."""
        return self.apis * OF_API + self.workers * OF_WORKER

    @property
    def fits(self) -> bool:
        """Return whether the server has room for them beside the others."""
        return self.expected + self.others <= self.room


async def count_connections(connection: Connection) -> ConnectionUsage:
    """Count the connections that there are and that there may be."""
    cursor = await connection.execute(
        "select count(*) filter (where name like 'api %%') as apis,"
        " count(*) filter (where name like 'worker %%') as workers,"
        " (select count(*) from pg_stat_activity where datid is not null and usename = current_user"
        "   and application_name like 'vedette%%') as ours,"
        " (select count(*) from pg_stat_activity where datid is not null) as connected,"
        " (select sum(case name when 'max_connections' then 1 else -1 end * setting::int) as room"
        "   from pg_settings where name in"
        "   ('max_connections', 'superuser_reserved_connections', 'reserved_connections')) as room"
        " from processes where seen_at > now() - make_interval(secs => %s)",
        (_ALIVE_SECONDS,),
    )
    row = await cursor.fetchone()
    assert row is not None
    others = row["connected"] - row["ours"]
    return ConnectionUsage(row["apis"], row["workers"], row["ours"], others, int(row["room"]))
