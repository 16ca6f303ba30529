"""The health check of a worker's container: it exits with 1 if the worker is not working.

A worker reports to the database every second. So a working one has a connection from this container's address
that was just in use. A process that hangs, or has lost the database, has none.
"""

from __future__ import annotations

import sys

import psycopg

import settings

_SECONDS = 15
"""The greatest silence of a worker; `/readyz` allows the same."""

_IN_USE = """
    select count(*) from pg_stat_activity
    where application_name = 'vedette worker' and client_addr is not distinct from inet_client_addr()
      and state_change > now() - make_interval(secs => %s)
"""


def main() -> str | None:
    """Ask the database; return the problem, if there is one."""
    url = settings.load().database_url
    assert url is not None
    try:
        with psycopg.connect(url.get_secret_value(), connect_timeout=3) as connection:
            row = connection.execute(_IN_USE, (_SECONDS,)).fetchone()
    except psycopg.OperationalError as error:
        return f"The database does not answer: {error}"
    return None if row and row[0] else f"The worker has not asked the database for {_SECONDS} seconds."


if __name__ == "__main__":
    sys.exit(main())
