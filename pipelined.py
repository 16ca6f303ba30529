"""Transactions whose statements, commit and notifications travel together, in pipeline mode.

psycopg's own `transaction()` waits in a pipeline for an answer to `begin`, and for another before `commit`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import LiteralString

import psycopg
from psycopg.pq import TransactionStatus

import logs
from database import Connection

_log = logs.get(__name__)
_OPEN = (TransactionStatus.INTRANS, TransactionStatus.INERROR)
# They have a transaction of their own, after the commit: NOTIFY takes a lock that serialises commits. It need
# not wait for the disk.
_NOTIFY: LiteralString = (
    "select set_config('synchronous_commit', 'off', true), notify_1(%s::text[], %s::text[])"
)

Notifications = list[tuple[str, str]]
"""Channels and payloads."""


@asynccontextmanager
async def pipelined_transaction(connection: Connection) -> AsyncGenerator[Notifications]:
    """Commit the statements of the block together, or none, then send the notifications that it adds.

    To read the result of a statement within the block costs a round trip. All can be read after it.

    Args:
        connection: outside a transaction.

    Raises:
        psycopg.Error: nothing is stored. If only the notifications fail, that is logged.
    """
    notifications: Notifications = []
    commit = None
    try:
        async with connection.pipeline():
            await connection.execute("begin")
            yield notifications
            commit = await connection.execute("commit")
            # Without a synchronisation point before it, this is skipped if the commit fails.
            if notifications:
                await connection.execute(_NOTIFY, tuple(map(list, zip(*notifications, strict=True))))
    except BaseException as error:
        if connection.pgconn.transaction_status in _OPEN:
            await connection.rollback()
        if commit is None or commit.statusmessage != "COMMIT" or not isinstance(error, psycopg.Error):
            raise
        _log.warning("notifications_not_sent", error=str(error))
