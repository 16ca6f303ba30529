"""Many who ask at the same moment are served by one statement."""

import asyncio

import pytest

from api.together import Together


async def test_those_who_wait_while_one_is_on_its_way_go_together() -> None:
    groups: list[list[int]] = []
    first = asyncio.Event()

    async def ask(asked: list[int]) -> list[int | Exception]:
        groups.append(asked)
        if len(groups) == 1:
            await first.wait()
        return [one * 10 for one in asked]

    together = Together(ask)
    alone = together.one(1)
    while not groups:
        await asyncio.sleep(0)
    others = [together.one(n) for n in (2, 3, 4)]
    first.set()
    assert await asyncio.gather(alone, *others) == [10, 20, 30, 40]
    assert groups == [[1], [2, 3, 4]]


async def test_what_is_wrong_with_one_is_raised_for_that_one_only() -> None:
    async def ask(asked: list[int]) -> list[int | Exception]:
        if 3 in asked and len(asked) > 1:
            raise ValueError("one of them breaks the statement")
        return [ValueError(one) if one in (2, 3) else one for one in asked]

    together = Together(ask)
    futures = [together.one(n) for n in (1, 2, 3, 4)]
    found = await asyncio.gather(*futures, return_exceptions=True)
    assert [found[0], found[3]] == [1, 4]
    assert isinstance(found[1], ValueError) and isinstance(found[2], ValueError)


async def test_who_has_gone_away_does_not_harm_those_who_wait() -> None:
    async def ask(asked: list[int]) -> list[int | Exception]:
        return [*asked]

    together = Together(ask)
    gone, waits = together.one(1), together.one(2)
    gone.cancel()
    assert await waits == 2
    with pytest.raises(asyncio.CancelledError):
        await gone
