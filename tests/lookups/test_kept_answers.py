"""What a dry run takes from kept answers: those that cost nothing, and without asking any source."""

from dataclasses import replace
from typing import Any

from tests.lookups.conftest import World, kind, spec


def statuses(providers: list[dict[str, Any]]) -> dict[str, tuple[str, str | None]]:
    return {report["name"]: (report["status"], report.get("detail")) for report in providers}


async def test_a_kept_answer_is_used_and_the_other_sources_are_not_asked(world: World) -> None:
    kept, other = await world.provider("apple", a__value=1), await world.provider("berry", b__value=2)
    first = await world.process(spec("apple"))
    await first.lookup("word", "fruit")
    second = await world.process(spec("apple"), spec("berry"))
    result = await second.dry_run("word", "fruit", pointer="/value")
    assert result.data["a"]["value"] == 1
    assert statuses(result.reports()) == {"apple": ("cached", None), "berry": ("skipped", "not_asked")}
    assert (len(kept.requests), len(other.requests)) == (1, 0)


async def test_a_kept_answer_that_is_no_longer_fresh_is_used_too(world: World) -> None:
    await world.provider("apple", a__value=1)
    lookups = await world.process(spec("apple", ttl=1e-6, stale_ttl=600))
    await lookups.lookup("word", "fruit")
    result = await lookups.dry_run("word", "fruit", pointer="/value")
    assert (result.data["a"]["value"], result.reports()[0]["stale"]) == (1, True)


async def test_what_somebody_has_paid_for_is_not_given_away(world: World) -> None:
    await world.provider("apple", a__value=1)
    lookups = await world.process(spec("apple"))
    await lookups.lookup("word", "fruit")
    lookups._kinds = {"word": replace(kind(spec("apple")), price=1)}  # pyright: ignore[reportPrivateUsage]
    result = await lookups.dry_run("word", "fruit", pointer="/value")
    assert statuses(result.reports()) == {"apple": ("skipped", "not_asked")}
    assert result.data["a"]["value"] is None
