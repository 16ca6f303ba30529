"""The places for calls: bounded, shared among owners, and few for hosts that keep hanging."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concurrency import ConcurrencyLimiter
from outbound.hosts import HostLimiter


class Callers:
    """Calls that go on until they are ended."""

    def __init__(self, places: ConcurrencyLimiter) -> None:
        self.places = places
        self.begun: list[str] = []
        self.active = Counter[str]()
        self.tasks: list[tuple[str, asyncio.Task[None], asyncio.Event]] = []

    async def ask(self, owner: str, name: str = "") -> None:
        """One more call, and every callback that is due."""
        end = asyncio.Event()
        self.tasks.append((owner, asyncio.create_task(self._call(owner, name or owner, end)), end))
        await settle()

    async def _call(self, owner: str, name: str, end: asyncio.Event) -> None:
        async with self.places.hold(owner):
            self.begun.append(name)
            self.active[owner] += 1
            try:
                await end.wait()
            finally:
                self.active[owner] -= 1

    async def end(self, index: int, *, cancel: bool = False) -> None:
        """End a call, whether it has begun or not."""
        _, task, event = self.tasks.pop(index)
        _ = task.cancel() if cancel else event.set()
        await settle()

    async def end_all(self) -> None:
        """End all calls."""
        while self.tasks:
            await self.end(0, cancel=True)


async def settle() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("asked", "active"),
    [
        pytest.param("a" * 20, {"a": 6}, id="half for one"),
        pytest.param("a" * 20 + "b" * 20, {"a": 6, "b": 3}, id="half of what is free for the next"),
        pytest.param("abc" * 20, {"a": 3, "b": 3, "c": 3}, id="the same for all, and as many free"),
        pytest.param("abcdefghijklm", dict.fromkeys("abcdefghijkl", 1), id="all of them for many"),
    ],
)
async def test_an_owner_has_at_most_as_many_places_as_are_free(asked: str, active: dict[str, int]) -> None:
    callers = Callers(ConcurrencyLimiter(12))
    for owner in asked:
        await callers.ask(owner)
    assert callers.active == active
    await callers.end_all()


async def test_owners_whose_calls_hang_leave_places_for_another() -> None:
    callers = Callers(ConcurrencyLimiter(512))
    hanging = [callers.places.hold(owner) for owner in "abc" for _ in range(300)]
    tasks = [asyncio.create_task(one.__aenter__()) for one in hanging]
    await settle()
    for _ in range(40):
        await callers.ask("d")
    assert callers.active == {"d": 32}
    await callers.end_all()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_free_place_goes_to_who_has_fewest_and_an_owners_calls_keep_their_order() -> None:
    callers = Callers(ConcurrencyLimiter(4))
    for owner, name in [("a", "a1"), ("a", "a2"), ("b", "b1"), ("c", "c1"), ("a", "a3"), ("b", "b2")]:
        await callers.ask(owner, name)
    await callers.ask("d", "d1")
    await callers.ask("d", "d2")
    assert callers.begun == ["a1", "a2", "b1", "c1"]
    await callers.end(0)
    assert callers.begun[4:] == ["d1"]
    await callers.end_all()


async def test_who_asks_for_much_gets_it_together_though_less_is_free() -> None:
    places = ConcurrencyLimiter(10)
    begun: list[str] = []

    async def call(owner: str, size: int) -> None:
        async with places.hold(owner, size):
            begun.append(f"{owner}{size}")
            await end.wait()

    end = asyncio.Event()
    asked = [("a", 4), ("a", 4), ("a", 1), ("b", 9), ("c", 1), ("b", 1)]
    tasks = [asyncio.create_task(call(*one)) for one in asked]
    await settle()
    assert begun == ["a4", "a4", "b9"]  # c asks when more than all are taken
    end.set()
    await asyncio.gather(*tasks)
    assert sorted(begun[3:]) == ["a1", "b1", "c1"]
    assert not places._lines and not places._waiting  # pyright: ignore[reportPrivateUsage]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 40), st.sampled_from(["ask", "end", "cancel"]))))
def test_whoever_asks_ends_and_gives_up_no_place_is_lost(steps: list[tuple[int, int, str]]) -> None:
    async def run() -> None:
        total = 6
        callers = Callers(ConcurrencyLimiter(total))
        for owner, index, step in steps:
            if step == "ask" or not callers.tasks:
                await callers.ask("abcde"[owner])
            else:
                await callers.end(index % len(callers.tasks), cancel=step == "cancel")
            free = total - callers.active.total()
            assert free >= 0
            asked = Counter(name for name, _, event in callers.tasks if not event.is_set())
            for name, count in asked.items():
                assert callers.active[name] == count or callers.active[name] >= free
        await callers.end_all()
        assert not callers.places._lines and not callers.places._waiting  # pyright: ignore[reportPrivateUsage]

    asyncio.run(run())


async def hang(hosts: HostLimiter, host: str, verdicts: list[bool]) -> None:
    """Have calls end with these verdicts."""
    for hung in verdicts:
        async with hosts.hold("a", host):
            hosts.note("a", host, hung=hung)


@pytest.mark.parametrize(
    ("verdicts", "owner", "host", "waits"),
    [
        pytest.param([True] * 3, "a", "x", True, id="three in a row"),
        pytest.param([True, True], "a", "x", False, id="two"),
        pytest.param([True, True, True, False], "a", "x", False, id="not the last"),
        pytest.param([True] * 3, "a", "y", False, id="another host"),
        pytest.param([True] * 3, "b", "x", False, id="another owner"),
    ],
)
async def test_a_host_of_an_owner_that_keeps_hanging_has_fewer_places(
    verdicts: list[bool], owner: str, host: str, waits: bool
) -> None:
    hosts = HostLimiter(2)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(hosts.hold("a", "x"))
        await hang(hosts, "x", verdicts)
        for _ in range(1 if waits else 5):
            await stack.enter_async_context(hosts.hold(owner, host))
        if waits:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await stack.enter_async_context(hosts.hold(owner, host))


async def test_a_call_that_does_not_hang_lets_all_go_that_wait() -> None:
    hosts = HostLimiter(1)
    async with hosts.hold("a", "x"):
        for _ in range(3):
            hosts.note("a", "x", hung=True)
        entered = [asyncio.create_task(hosts.hold("a", "x").__aenter__()) for _ in range(3)]
        await settle()
        assert not any(task.done() for task in entered)
        hosts.note("a", "x", hung=False)
        await asyncio.gather(*entered)
