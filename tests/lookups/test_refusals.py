"""A source that refuses again and again is left alone for ever longer, and then nobody waits for it."""

from __future__ import annotations

from uuid import uuid4

import pytest

from database import Connection, Database
from models.lookups import provider_states, source_quotas
from models.lookups.lookups import AllProvidersFailed
from models.lookups.provider_states import Admission
from services import pacing
from tests.lookups.conftest import World, spec


class Refusing:
    """A source that was asked once, and refuses."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self.name = connection, uuid4().hex

    async def refuse(self, until: float | None = None) -> Admission:
        await source_quotas.admit(self.connection, self.name, self.name, ())
        return await provider_states.fail(self.connection, self.name, reason="rate_limited", block=until)

    async def wait(self) -> None:
        """Let the time pass for which it is left alone."""
        await self.connection.execute(
            "update provider_states set blocked_until = now() where source = %s", (self.name,)
        )

    async def refusals(self, until: float | None, times: int) -> list[tuple[str | None, int]]:
        found: list[tuple[str | None, int]] = []
        for _ in range(times):
            refused = await self.refuse(until)
            found.append((refused.reason, round(refused.retry_after)))
            await self.wait()
        return found


async def test_each_refusal_in_a_row_doubles_the_pause_up_to_an_hour_and_then_it_refuses(
    database: Database,
) -> None:
    async with database.connection() as connection:
        found = await Refusing(connection).refusals(None, 8)
    seconds = [60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert found == [("rate_limited" if one < 3600 else "refusing", one) for one in seconds]


async def test_what_a_source_says_is_honoured_but_not_for_ever(database: Database) -> None:
    async with database.connection() as connection:
        assert await Refusing(connection).refusals(86_400, 2) == [("rate_limited", 86_400)] * 2
        found = await Refusing(connection).refusals(1, 13)
    assert found[:3] == [("rate_limited", 1), ("rate_limited", 2), ("rate_limited", 4)]
    assert found[-1] == ("refusing", 3600)


async def test_refusals_of_requests_that_were_under_way_are_one(database: Database) -> None:
    async with database.connection() as connection:
        source = Refusing(connection)
        for _ in range(20):
            refused = await source.refuse()
        assert (refused.reason, round(refused.retry_after)) == ("rate_limited", 60)
        await source.wait()
        assert round((await source.refuse()).retry_after) == 120


async def test_a_source_that_answers_begins_anew(database: Database) -> None:
    async with database.connection() as connection:
        source = Refusing(connection)
        await source.refusals(None, 9)
        await provider_states.close(connection, source.name, source.name)
        assert round((await source.refuse()).retry_after) == 60


async def test_an_answer_that_is_kept_begins_anew_and_nobody_waits_for_who_refuses(world: World) -> None:
    await world.provider("a", a__value=1)
    lookups = await world.process(spec("a"))
    world.providers["a"].says(429)
    for word in ("one", "two", "three", "four", "five", "six", "seven"):
        with pytest.raises(AllProvidersFailed):
            await lookups.lookup("word", word)
        async with world.database.connection() as connection:
            await connection.execute("update provider_states set blocked_until = now()")
        lookups = await world.process(spec("a"))
    async with world.database.connection() as connection:
        await connection.execute("update provider_states set blocked_until = now() + interval '1 hour'")
    with pytest.raises(AllProvidersFailed) as refused:
        await lookups.lookup("word", "eight")
    [report] = refused.value.details["providers"]
    assert (report["status"], report["detail"]) == ("rate_limited", "refusing")
    assert pacing.wait_for_any(refused.value, 0, 0.0) is None
    async with world.database.connection() as connection:
        await connection.execute("update provider_states set blocked_until = now()")
    world.providers["a"].respond = None
    lookups = await world.process(spec("a"))
    await lookups.lookup("word", "nine")
    async with world.database.connection() as connection:
        cursor = await connection.execute("select refusals from provider_states where source = 'a'")
        assert await cursor.fetchone() == {"refusals": 0}
