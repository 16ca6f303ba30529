"""A clock that moves when somebody sleeps."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime

from execution.run_execution import Clock
from tests.engine.world import START


@dataclass
class FastClock(Clock):
    """Whoever sleeps moves it."""

    moment: datetime = START

    def now(self) -> datetime:
        return self.moment

    async def sleep_until(self, moment: datetime) -> None:
        await asyncio.sleep(0)
        self.moment = max(self.moment, moment)
