"""A batch in the hands of its executor."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar
from uuid import UUID

import logs
from activities.execution import HeldLease
from database import AWAY, Connection, Database
from models.leases import Lease

_log = logs.get(__name__)
T = TypeVar("T")
AGAIN_SECONDS = 0.5
"""How long to wait before one tries again to reach it."""
# How long runs may join a batch: a worker that dies leaves no more than this and what it has at work.
_OPEN_SECONDS = 2.0
# And how many. More would not be dearer, but each of them is asked for when the batch is.
_MOST_RUNS = 1024


@dataclass
class Batch:
    """A batch in this process.

    Attributes:
        opened_at: by `time.monotonic()`.
        claimed: how many runs it was given.
        closed: it is given no more.
        parts: the claims that are not over.
        wakes: when its runs that wait go on, or the first of them.
        alarm: queues them then.
        joined: runs have joined it.
        over: none of its runs is in this process any more.
    """

    held: HeldLease
    account_id: UUID
    automation_id: UUID
    version: int
    lane_id: int
    opened_at: float = field(default_factory=time.monotonic)
    claimed: int = 0
    closed: bool = False
    parts: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    runs: dict[UUID, asyncio.Task[None]] = field(default_factory=dict[UUID, asyncio.Task[None]])
    wakes: list[datetime] = field(default_factory=list[datetime])
    alarm: asyncio.Task[None] | None = None
    joined: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_open(self) -> bool:
        """Whether runs that are claimed later may join it."""
        young = time.monotonic() - self.opened_at < _OPEN_SECONDS
        return young and self.claimed < _MOST_RUNS and not (self.closed or self.held.lost)

    @property
    def lease(self) -> Lease:
        """The right to it."""
        return self.held.lease

    async def until_there(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until the database is there, or the batch is this process's no longer."""
        while True:
            try:
                return await ask()
            except AWAY as error:
                if self.held.lost:
                    raise
                _log.warning("database_away", batch_id=str(self.lease.batch_id), error=str(error))
                await asyncio.sleep(AGAIN_SECONDS)

    async def persist(self, database: Database, change: Callable[[Connection], Awaitable[T]]) -> T:
        """Change something in the database, as `until_there`."""

        async def ask() -> T:
            async with database.connection() as connection:
                return await change(connection)

        return await self.until_there(ask)
