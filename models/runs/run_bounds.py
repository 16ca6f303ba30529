"""Bounds on runs that have not ended: in an account, and below one root run."""

from __future__ import annotations

import time
from collections.abc import Collection
from uuid import UUID

from database import Connection
from models.errors import DomainError, RateLimited
from models.runs import run_counts

_LOOK_SECONDS = 1.0
_RETRY_SECONDS = 60
# Within this distance of the bound below a root, transactions count one after the other.
_NEAR = 256


class TooManyRuns(RateLimited):
    """The account has as many unfinished runs as it may."""

    def __init__(self, most: int) -> None:
        message = (
            f"This account has {most:,} runs that have not ended, and may have no more:"
            " wait until some have, or cancel some."
        )
        DomainError.__init__(self, code="too_many_runs", message=message)
        self.retry_after, self.headers = _RETRY_SECONDS, dict[str, str]()


class UnfinishedRuns:
    """The bound of unfinished runs in each account.

    The database is asked once a second; runs that this process accepts count at once. Other processes accept
    runs meanwhile: within that second an account may get more than its bound.
    """

    def __init__(self, most: int) -> None:
        """Create the bound.

        Args:
            most: the highest number of unfinished runs of an account.
        """
        self.most = most
        self._counted: dict[UUID, tuple[float, int]] = {}

    async def check(self, connection: Connection, account_id: UUID, new: int = 1) -> None:
        """Count new runs of an account.

        Raises:
            TooManyRuns: the account has no room for them.
        """
        if account_id in await self.find_full(connection, {account_id: new}):
            raise TooManyRuns(self.most)

    async def find_full(self, connection: Connection, new: dict[UUID, int]) -> set[UUID]:
        """Count new runs of several accounts; return the accounts that have no room for theirs."""
        await self._count(connection, new)
        full: set[UUID] = set()
        for account_id, runs in new.items():
            at, count = self._counted[account_id]
            if count + runs > self.most:
                full.add(account_id)
            else:
                self._counted[account_id] = at, count + runs
        return full

    async def _count(self, connection: Connection, account_ids: Collection[UUID]) -> None:
        now = time.monotonic()
        stale = [one for one in account_ids if self._counted.get(one, (0.0, 0))[0] < now - _LOOK_SECONDS]
        if not stale:
            return
        self._counted = {one: kept for one, kept in self._counted.items() if kept[0] >= now - _LOOK_SECONDS}
        counts = await run_counts.count_unfinished(connection, stale)
        self._counted |= {one: (now, runs) for one, runs in counts.items()}


async def count_room_below(connection: Connection, root_run_id: UUID, new: int, most: int) -> int:
    """Count how many of `new` runs may begin below a root, so that at most `most` are unfinished there.

    Near the bound, a concurrent transaction below the same root waits for the commit of this one.
    """
    runs = await _count_below(connection, root_run_id, most)
    if most - _NEAR <= runs + new and runs < most:
        lock = f"root {root_run_id}"
        await connection.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (lock,))
        runs = await _count_below(connection, root_run_id, most)
    return max(0, min(new, most - runs))


async def _count_below(connection: Connection, root_run_id: UUID, most: int) -> int:
    cursor = await connection.execute(
        "select count(*)::int as runs from"
        " (select from run_work where root_run_id = %s limit %s) as unfinished",
        (root_run_id, most),
    )
    row = await cursor.fetchone()
    return row["runs"] if row else 0
