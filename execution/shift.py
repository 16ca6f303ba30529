"""A shift in its worker, and the groups of runs that it carries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID

import logs
from database import AWAY, Connection, Database
from models.runs.run_work import VersionRef

_log = logs.get(__name__)
T = TypeVar("T")
AGAIN_SECONDS = 0.5
"""The pause before another attempt to reach the database."""
_LOOK_SECONDS = 0.1
BEGIN_SECONDS = 8.0
"""No call begins later than this after the last successful beat was sent, before `SILENT_SECONDS`."""


def now() -> float:
    """Return the time in seconds, by a clock that also counts while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass
class HeldShift:
    """A shift in its worker: calls may begin for a while after each beat.

    Attributes:
        beat_sent_at: when the last successful beat was sent, by `now`.
        lost: whether another process has ended it.
    """

    id: UUID
    beat_sent_at: float = field(default_factory=now)
    lost: bool = False

    @property
    def can_start_calls(self) -> bool:
        """Return whether a call may begin now."""
        return not self.lost and now() - self.beat_sent_at < BEGIN_SECONDS

    async def wait_until_calls_can_start(self) -> bool:
        """Wait for a beat, if the last one is too old; return False once the shift is lost."""
        while not self.can_start_calls and not self.lost:
            await asyncio.sleep(_LOOK_SECONDS)
        return not self.lost


@dataclass
class Group:
    """Runs of one version of a workflow that were claimed together.

    Attributes:
        claims: the `claim_id` of each run.
    """

    held: HeldShift
    of: VersionRef
    claims: Mapping[UUID, UUID]

    async def retry_until_available(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Call `ask` until the database answers, or the shift is lost."""
        while True:
            try:
                return await ask()
            except AWAY as error:
                if self.held.lost:
                    raise
                _log.warning("database_away", error=str(error))
                await asyncio.sleep(AGAIN_SECONDS)

    async def persist(self, database: Database, change: Callable[[Connection], Awaitable[T]]) -> T:
        """Change something in the database, with retries as in `retry_until_available`."""

        async def ask() -> T:
            async with database.connection() as connection:
                return await change(connection)

        return await self.retry_until_available(ask)
