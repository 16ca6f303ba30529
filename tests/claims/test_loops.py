"""The loop of a dispatcher, without work."""

from __future__ import annotations

import asyncio

from database import Database
from dispatch.loop import DispatchLoop


class Sweeping(DispatchLoop):
    """Sweeps until it is let go, and would sweep again in a minute."""

    sweep_seconds = 60.0

    def __init__(self, database: Database) -> None:
        super().__init__(database, {}, "tests")
        self.sweeps, self.may_end = asyncio.Event(), asyncio.Event()
        self.claims = 0

    async def _claim_all(self) -> float:
        self.claims += 1
        return float("inf")

    async def _sweep(self) -> None:
        self.sweeps.set()
        await self.may_end.wait()

    async def let_go(self) -> None:
        self.may_end.set()


async def test_a_loop_that_is_stopped_during_a_sweep_ends_with_the_sweep(database: Database) -> None:
    loop = Sweeping(database)
    loop.start()
    await loop.sweeps.wait()
    async with asyncio.timeout(10):
        await asyncio.gather(loop.stop(), loop.let_go())
    assert loop.claims == 0
