"""A network without a way out: what lookups cost while their sources cannot be reached."""

from __future__ import annotations

import asyncio
from typing import Any

from providers.lookup.lookup import LookupResult
from tests.lookups.conftest import World, spec
from tests.stacks import eventually


def report(result: LookupResult, name: str) -> dict[str, Any]:
    return next(row for row in result.reports() if row["name"] == name)


async def test_a_source_whose_last_request_failed_is_not_waited_for_long(world: World) -> None:
    await world.provider("a", a__value=1)
    await world.provider("b", b__value=1)
    world.providers["a"].hangs()
    lookups = await world.process(spec("a", timeout=3), spec("b"))
    first = await lookups.lookup("word", "one")
    second = await lookups.lookup("word", "two")
    assert report(first, "a")["ms"] >= 2900
    assert (report(second, "a")["status"], report(second, "a")["detail"]) == ("timeout", "deadline")
    assert report(second, "a")["ms"] < 2900
    assert second.data["b"]["value"] == 1


async def test_a_source_that_answers_again_is_waited_for_again(world: World) -> None:
    await world.provider("a", a__value=1)
    await world.provider("b", b__value=1)
    world.providers["a"].says(500)
    lookups = await world.process(spec("a", timeout=30), spec("b"))
    await lookups.lookup("word", "one")
    world.providers["a"].respond = None
    assert not (await lookups.lookup("word", "two")).partial
    release = world.providers["a"].hangs()
    waiting = asyncio.create_task(lookups.lookup("word", "three"))
    await eventually(lambda: len(world.providers["a"].requests) == 3, what="a is asked")
    done, _ = await asyncio.wait([waiting], timeout=0.8)
    assert not done
    release.set()
    assert not (await waiting).partial


async def test_once_they_are_left_alone_sources_cost_nothing(world: World) -> None:
    await world.provider("b", b__value=1)
    unreachable = {"a": {"base_url": "http://127.0.0.1:9"}}
    lookups = await world.process(spec("a"), spec("b"), providers=unreachable)
    for number in range(5):
        await lookups.lookup("word", "w" * (number + 1))
    for number in range(20):
        result = await lookups.lookup("word", "x" * (number + 1))
        assert report(result, "a")["detail"] == "cooling_down"
        # Not asked: only the way through the gates, where half a second is what one that is asked may take.
        assert report(result, "a")["ms"] < 200
        assert result.partial
