"""The healthcheck of a worker's container: exits with 1 unless its worker claims runs and reaches Temporal.

A worker signs in at the database every second, and notes there whether Temporal has answered it lately. Its
row is found by the address of this container. A process that stands still does not sign in.
"""

from __future__ import annotations

import sys

import psycopg

import settings

_SECONDS = 15
"""The greatest silence of a worker; `/readyz` allows the same."""

_SIGNED_IN = """
    select halted, reaches_temporal from workers
    where address is not distinct from inet_client_addr() and seen_at > now() - make_interval(secs => %s)
    order by seen_at desc limit 1
"""


def main() -> str | None:
    """Return what is wrong with the worker; None if nothing is."""
    url = settings.load().database_url
    assert url is not None
    try:
        with psycopg.connect(url.get_secret_value(), connect_timeout=3) as connection:
            row = connection.execute(_SIGNED_IN, (_SECONDS,)).fetchone()
    except psycopg.Error as error:
        return f"The database does not answer: {error}"
    if row is None:
        return f"The worker has not signed in at the database for {_SECONDS} seconds."
    halted, reaches_temporal = row
    if halted:
        return "The worker claims no runs: its log says why (`engine_halted`)."
    return None if reaches_temporal else "The worker does not reach Temporal."


if __name__ == "__main__":
    sys.exit(main())
