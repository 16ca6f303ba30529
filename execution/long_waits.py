"""Long waits: runs that wait outside a shift get workflows of their own, a few a second.

A wait is safe in its row, and a sweep ends it. In Temporal it is visible, with its timer, and can be
cancelled.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

from temporalio.client import Client

import logs
from database import Database
from language.definition import Execution as Mode
from models.runs import own_runs
from models.runs.own_runs import SLOT_SECONDS, WaitingRun
from temporal import starts
from temporal.client import TEMPORAL_AWAY
from workflows.messages import OwnRun

_log = logs.get(__name__)
_A_SECOND = 3
# Two consecutive slots contain any ten seconds: at most 50 timers end in these.
_IN_A_SLOT = 25
_START_SECONDS = 1.0
_MOST_PAGES = 5


class WaitGiver:
    """Hands long waits to workflows; only one process at a time should do this."""

    def __init__(self, database: Database, client: Client, default: Mode, most: int) -> None:
        """Create the giver.

        Args:
            database: the database with the runs.
            client: any Temporal client.
            default: the carrier of runs whose workflow has no such setting.
            most: the highest number of waits that workflows have in the installation.
        """
        self._database = database
        self._client = client
        self._default: Mode = default
        self._most = most
        self._after: datetime | None = None
        self._next_at = 0.0

    async def give(self) -> int:
        """Hand over a few waits, if a second has passed since the last time; return their number."""
        if (now := time.monotonic()) < self._next_at:
            return 0
        self._next_at = now + 1.0
        chosen = await self._choose()
        given = await asyncio.gather(*(self._give(wait) for wait in chosen))
        return sum(given)

    async def _choose(self) -> list[WaitingRun]:
        """Choose the waits that end next, outside full slots; the next call continues after them."""
        chosen = list[WaitingRun]()
        async with self._database.connection() as connection:
            slots = await own_runs.count_waits(connection, self._most)
            most = min(_A_SECOND, self._most - sum(slots.values()))
            for _ in range(_MOST_PAGES):
                if len(chosen) >= most:
                    break
                page = await own_runs.find_long_waits(connection, self._after)
                for wait in page:
                    if len(chosen) >= most or (self._after and wait.wake_at <= self._after):
                        continue
                    self._after = wait.wake_at
                    slot = int(wait.wake_at.timestamp() // SLOT_SECONDS)
                    if slots.get(slot, 0) >= _IN_A_SLOT:
                        self._after = datetime.fromtimestamp((slot + 1) * SLOT_SECONDS, UTC)
                    elif (wait.execution or self._default) != "shift":
                        slots[slot] = slots.get(slot, 0) + 1
                        chosen.append(wait)
                if not page:
                    self._after = None
                    break
        return chosen

    async def _give(self, wait: WaitingRun) -> bool:
        async with self._database.connection() as connection:
            given = await own_runs.give_wait(connection, wait.run_id)
        if given is None:
            return False
        claim_id, trigger = given
        labels = starts.RunLabels(
            wait.account_id, wait.automation_id, wait.version, trigger, wait.priority, wait.parent_run_id
        )
        try:
            async with asyncio.timeout(_START_SECONDS):
                await starts.start_run(self._client, OwnRun(wait.run_id, claim_id), labels)
        except TEMPORAL_AWAY as error:
            _log.warning("wait_not_given", run_id=str(wait.run_id), error=repr(error))
            async with self._database.connection() as connection:
                await own_runs.take_wait_back(connection, wait.run_id, claim_id)
            return False
        return True
