"""ConcurrencyLimiter for calls: bounded, and never all taken by one owner."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from outbound.concurrency import ConcurrencyLimiter


async def take(places: ConcurrencyLimiter, owner: str, stack: AsyncExitStack) -> None:
    await stack.enter_async_context(places.taken(owner))


async def waits(places: ConcurrencyLimiter, owner: str) -> bool:
    """Whether the next one to ask for a place has to wait for it."""
    async with AsyncExitStack() as stack:
        asking = asyncio.ensure_future(take(places, owner, stack))
        # Long enough for every callback that is due.
        for _ in range(10):
            await asyncio.sleep(0)
        if asking.done():
            return False
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        return True


@pytest.mark.parametrize(
    ("taken", "owner", "has_to_wait"),
    [
        pytest.param(["a", "a"], "a", True, id="an owner with half of all"),
        pytest.param(["a", "a"], "b", False, id="another one meanwhile"),
        pytest.param(["a", "a", "b", "b"], "c", True, id="anybody when all are taken"),
    ],
)
async def test_half_of_the_places_is_the_most_that_one_owner_has(
    taken: list[str], owner: str, has_to_wait: bool
) -> None:
    places = ConcurrencyLimiter(4)
    async with AsyncExitStack() as stack:
        for one in taken:
            await take(places, one, stack)
        assert await waits(places, owner) == has_to_wait
    assert not await waits(places, owner)


async def test_an_owner_without_calls_is_forgotten() -> None:
    places = ConcurrencyLimiter(4)
    async with places.taken("a"):
        pass
    assert not places._shares  # pyright: ignore[reportPrivateUsage]
