"""Many who ask at the same moment are served by one statement."""

import asyncio

import psycopg
import pytest
from psycopg_pool import PoolTimeout

from micro_batcher import MOST_BYTES, MicroBatcher
from tests.stacks import eventually


async def test_those_who_wait_while_one_is_on_its_way_go_together() -> None:
    groups: list[list[int]] = []
    first = asyncio.Event()

    async def ask(asked: list[int]) -> list[int | Exception]:
        groups.append(asked)
        if len(groups) == 1:
            await first.wait()
        return [one * 10 for one in asked]

    batcher = MicroBatcher(ask)
    alone = batcher.submit(1)
    await eventually(lambda: bool(groups), what="the first is on its way")
    others = [batcher.submit(n) for n in (2, 3, 4)]
    first.set()
    assert await asyncio.gather(alone, *others) == [10, 20, 30, 40]
    assert groups == [[1], [2, 3, 4]]


async def test_two_groups_are_on_their_way_where_two_may_be() -> None:
    groups: list[list[int]] = []
    end = asyncio.Event()

    async def ask(asked: list[int]) -> list[int | Exception]:
        groups.append(asked)
        await end.wait()
        return [*asked]

    batcher = MicroBatcher(ask, in_flight=2)
    futures = [batcher.submit(1)]
    await eventually(lambda: groups == [[1]], what="the first is on its way")
    futures.append(batcher.submit(2))
    await eventually(lambda: groups == [[1], [2]], what="so is the second")
    futures += [batcher.submit(n) for n in (3, 4)]
    end.set()
    assert await asyncio.gather(*futures) == [1, 2, 3, 4]
    assert groups == [[1], [2], [3, 4]]


async def test_what_is_wrong_with_one_is_raised_for_that_one_only() -> None:
    async def ask(asked: list[int]) -> list[int | Exception]:
        if 3 in asked and len(asked) > 1:
            raise ValueError("one of them breaks the statement")
        return [ValueError(one) if one in (2, 3) else one for one in asked]

    batcher = MicroBatcher(ask)
    futures = [batcher.submit(n) for n in (1, 2, 3, 4)]
    found = await asyncio.gather(*futures, return_exceptions=True)
    assert [found[0], found[3]] == [1, 4]
    assert isinstance(found[1], ValueError) and isinstance(found[2], ValueError)


async def test_the_one_that_breaks_a_group_is_found_by_halves() -> None:
    groups: list[int] = []

    async def ask(asked: list[int]) -> list[int | Exception]:
        groups.append(len(asked))
        if 37 in asked:
            raise psycopg.DataError("a value that is none")
        return [*asked]

    batcher = MicroBatcher(ask)
    found = await asyncio.gather(*map(batcher.submit, range(64)), return_exceptions=True)
    assert [place for place, one in enumerate(found) if one != place] == [37]
    assert sum(groups) < 4 * 64


async def test_who_has_gone_away_does_not_harm_those_who_wait() -> None:
    async def ask(asked: list[int]) -> list[int | Exception]:
        return [*asked]

    batcher = MicroBatcher(ask)
    gone, waits = batcher.submit(1), batcher.submit(2)
    gone.cancel()
    assert await waits == 2
    with pytest.raises(asyncio.CancelledError):
        await gone


@pytest.mark.parametrize(
    ("failure", "groups"),
    [(psycopg.OperationalError("cut"), [1, 64, 36]), (PoolTimeout("no connection"), [1, 64])],
    ids=["a lost connection is that of a group", "no connection is to be had for anyone"],
)
async def test_what_is_nobodys_fault_is_raised_for_all_at_once(failure: Exception, groups: list[int]) -> None:
    asked: list[int] = []

    async def ask(group: list[int]) -> list[int | Exception]:
        asked.append(len(group))
        raise failure

    batcher = MicroBatcher(ask)
    futures = [batcher.submit(0)]
    await eventually(lambda: bool(asked), what="the first is on its way")
    futures += [batcher.submit(n) for n in range(100)]
    found = await asyncio.gather(*futures, return_exceptions=True)
    assert found == [failure] * 101
    assert asked == groups


async def test_whoever_asks_again_as_soon_as_it_is_answered_is_served() -> None:
    async def ask(asked: list[int]) -> list[int | Exception]:
        return [*asked]

    batcher = MicroBatcher(ask)

    async def ask_twice() -> list[int]:
        return [await batcher.submit(1), await batcher.submit(2)]

    assert await asyncio.wait_for(ask_twice(), 30) == [1, 2]


async def test_what_has_no_size_is_refused_and_harms_nobody() -> None:
    async def ask(asked: list[str]) -> list[str | Exception]:
        return [*asked]

    batcher = MicroBatcher(ask, size=lambda one: len(one.encode()))
    waits = batcher.submit("a")
    with pytest.raises(UnicodeEncodeError):
        batcher.submit("\ud800")
    assert await waits == "a"


async def test_a_group_holds_so_many_bytes_and_one_that_is_larger_goes_alone() -> None:
    groups: list[list[int]] = []

    async def ask(asked: list[int]) -> list[int | Exception]:
        groups.append(asked)
        return [*asked]

    half, whole = MOST_BYTES // 2, MOST_BYTES * 2
    batcher = MicroBatcher(ask, size=lambda one: one)
    await asyncio.gather(*map(batcher.submit, (half, half, half, whole, 1, 2)))
    assert groups == [[half, half], [half], [whole], [1, 2]]


async def test_one_that_the_database_takes_too_long_for_is_found_out() -> None:
    """A statement timeout is that of one of them: the others are answered."""

    async def ask(asked: list[int]) -> list[int | Exception]:
        if 3 in asked:
            raise psycopg.errors.QueryCanceled("canceling statement due to statement timeout")
        return [*asked]

    batcher = MicroBatcher(ask)
    given = await asyncio.gather(*map(batcher.submit, range(6)), return_exceptions=True)
    assert [one for one in given if isinstance(one, int)] == [0, 1, 2, 4, 5]
