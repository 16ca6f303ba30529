"""One merged answer from many sources, over real HTTP and a real Postgres."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

import pytest
from aiohttp import web

from database import Database
from models.errors import Invalid
from models.lookups.lookups import AllProvidersFailed, NoProvider, QuotaWindow
from models.lookups.provider_states import OPEN_SECONDS
from providers.lookup.composition import Selection
from providers.lookup.lookup import LookupResult
from providers.lookup.questions import LookupOptions
from sealing import Keyring
from services.operator.configuration import effective, warnings
from settings import Rate, StartError, load
from tests.lookups.conftest import Answer, World, spec
from tests.stacks import eventually


def status(result: LookupResult) -> dict[str, str]:
    return {row["name"]: row["status"] for row in result.reports()}


def row(result: LookupResult, name: str) -> dict[str, Any]:
    return next(row for row in result.reports() if row["name"] == name)


async def three(world: World) -> None:
    for number, name in enumerate("abc"):
        await world.provider(name, **{f"{name}__value": number, "shared": name})


async def age(world: World, seconds: float) -> None:
    """Make all that is kept in Postgres this much older."""
    async with world.database.connection() as connection:
        await connection.execute(
            "update lookup_answers set fetched_at = fetched_at - make_interval(secs => %(s)s),"
            " expires_at = expires_at - make_interval(secs => %(s)s),"
            " stale_until = stale_until - make_interval(secs => %(s)s)",
            {"s": seconds},
        )


async def test_all_sources_together_make_one_answer(world: World) -> None:
    await three(world)
    result = await (await world.process()).lookup("word", "  Apple ")
    answer = result.answer()
    Answer.model_validate(answer)
    assert answer["word"] == "apple"
    assert [answer[name]["value"] for name in "abc"] == [0, 1, 2]
    assert answer["shared"] == "a"
    assert answer["sources"]["shared"] == ["a"]
    assert answer["conflicts"] == {"shared": {"a": "a", "b": "b", "c": "c"}}
    assert (answer["partial"], answer["cached"]) == (False, False)
    assert [provider["fields"] for provider in answer["providers"]] == [
        [f"{name}.value", "shared"] for name in "abc"
    ]


@pytest.mark.parametrize(
    "failing", [names for size in (1, 2) for names in combinations("abc", size)], ids="".join
)
async def test_whichever_sources_fail_the_others_answer(failing: tuple[str, ...], world: World) -> None:
    await three(world)
    for name in failing:
        world.providers[name].says(503)
    result = await (await world.process()).lookup("word", "apple")
    assert result.partial
    for number, name in enumerate("abc"):
        assert status(result)[name] == ("error" if name in failing else "ok")
        assert result.data[name]["value"] == (None if name in failing else number)


async def test_when_every_source_fails_the_lookup_does_and_says_how_each_did(world: World) -> None:
    await three(world)
    for provider in world.providers.values():
        provider.says(500)
    with pytest.raises(AllProvidersFailed) as failed:
        await (await world.process()).lookup("word", "apple")
    assert [provider["detail"] for provider in failed.value.details["providers"]] == ["http_500"] * 3


async def test_when_no_source_is_on_nobody_is_asked(world: World) -> None:
    await three(world)
    off = {name: {"enabled": False} for name in "abc"}
    with pytest.raises(NoProvider):
        await (await world.process(providers=off)).lookup("word", "apple")


async def test_knowing_nothing_is_an_answer(world: World) -> None:
    (await world.provider("a")).says(410)
    result = await (await world.process()).lookup("word", "apple")
    assert (status(result), result.partial) == ({"a": "empty"}, False)
    assert result.data["a"] == {"value": None, "shared": None}


@pytest.mark.parametrize(
    ("code", "body", "headers", "expected", "detail"),
    [
        (401, "", {}, "auth_failed", "http_401"),
        (403, "", {}, "auth_failed", "http_403"),
        (429, "", {"Retry_After": "30"}, "rate_limited", "http_429"),
        (500, "", {}, "error", "http_500"),
        (503, "", {"Retry_After": "5"}, "error", "http_503"),
        (400, "{}", {}, "rejected", "http_400"),
        (404, "", {}, "rejected", "http_404"),
        (422, "", {}, "rejected", "http_422"),
        (451, "", {}, "rejected", "http_451"),
        (302, "", {"Location": "/"}, "bad_response", "http_302"),
        (200, "<html>Log in</html>", {}, "bad_response", "not_json"),
        (200, "", {}, "bad_response", "not_json"),
        (200, '{"a.value": 1', {}, "bad_response", "not_json"),
        (200, "[1, 2]", {}, "bad_response", "not_an_object"),
        (200, '{"a.value": 1, "a.new": 2}', {}, "bad_response", "drifted"),
        (200, '{"a.value": "1"}', {}, "bad_response", "drifted"),
        (200, '{"a.value": "' + "x" * 9_000_000 + '"}', {}, "bad_response", "too_large"),
    ],
)
async def test_each_way_to_fail_is_told_apart(
    code: int, body: str, headers: dict[str, str], expected: str, detail: str, world: World
) -> None:
    (await world.provider("a")).says(code, body, **headers)
    await world.provider("b", b__value=1)
    result = await (await world.process()).lookup("word", "apple")
    assert (row(result, "a")["status"], row(result, "a")["detail"]) == (expected, detail)
    assert row(result, "a").get("retry_after") == (
        int(headers["Retry_After"]) if "Retry_After" in headers else None
    )
    assert result.data["b"]["value"] == 1
    assert result.partial


async def test_of_an_answer_that_has_drifted_what_is_known_is_used_but_not_kept(world: World) -> None:
    await world.provider("a", a__value=1, a__new=2)
    await world.provider("b", b__value=1)
    lookups = await world.process()
    for fields in (["a", "b"], None):
        result = await lookups.lookup("word", "apple", LookupOptions(Selection(fields=fields)))
        assert (result.data["a"]["value"], status(result)["a"]) == (1, "bad_response")
    assert len(world.providers["a"].requests) == 2


async def test_a_parser_that_breaks_is_a_bad_response(world: World) -> None:
    await world.provider("a", a__value=1)
    await world.provider("b", b__value=1)
    lookups = await world.process()
    source = lookups._kinds["word"].sources[0]  # pyright: ignore[reportPrivateUsage]
    object.__setattr__(source, "parse", lambda raw: raw["no"]["such"]["place"])
    result = await lookups.lookup("word", "apple")
    assert (row(result, "a")["status"], row(result, "a")["detail"]) == ("bad_response", "unexpected_shape")


async def test_sources_are_asked_at_the_same_time(world: World) -> None:
    await three(world)
    releases = [provider.hangs() for provider in world.providers.values()]
    lookup = asyncio.create_task((await world.process()).lookup("word", "apple"))
    await eventually(
        lambda: all(provider.requests for provider in world.providers.values()), what="all are asked"
    )
    for release in releases:
        release.set()
    assert not (await lookup).partial


async def test_a_source_that_hangs_costs_the_deadline_and_no_more(world: World) -> None:
    await three(world)
    release = world.providers["b"].hangs()
    lookups = await world.process(*(spec(name, timeout=60) for name in "abc"))
    async with asyncio.timeout(30):
        result = await lookups.lookup("word", "apple", LookupOptions(deadline=1))
    assert status(result) == {"a": "ok", "b": "timeout", "c": "ok"}
    # What was on its way arrives after all, and is there for the next.
    release.set()

    async def whole() -> bool:
        return not (await lookups.lookup("word", "apple")).partial

    await eventually(whole)
    assert len(world.providers["b"].requests) == 1


async def test_a_source_has_its_own_time_limit(world: World) -> None:
    await world.provider("a", a__value=1)
    world.providers["a"].hangs()
    await world.provider("b", b__value=1)
    result = await (await world.process(spec("a", timeout=0.2), spec("b"))).lookup("word", "apple")
    assert status(result) == {"a": "timeout", "b": "ok"}


async def test_queries_that_are_the_same_fly_once(world: World) -> None:
    await three(world)
    release = world.providers["a"].hangs()
    lookups = await world.process()
    asking = [asyncio.create_task(lookups.lookup("word", word)) for word in ("apple", "APPLE", " apple")]
    await eventually(lambda: bool(world.providers["a"].requests), what="a is asked")
    asking[0].cancel()
    release.set()
    results = await asyncio.gather(*asking[1:])
    assert [result.data["a"]["value"] for result in results] == [0, 0]
    assert {len(provider.requests) for provider in world.providers.values()} == {1}


async def test_a_query_of_another_kind_is_refused_before_anyone_is_asked(world: World) -> None:
    await three(world)
    with pytest.raises(Invalid) as refused:
        await (await world.process()).lookup("word", "two words", pointer="/queries/1")
    assert refused.value.errors[0].pointer == "/queries/1"
    assert not any(provider.requests for provider in world.providers.values())


async def test_only_sources_of_the_wanted_fields_are_asked(world: World) -> None:
    await three(world)
    specs = [spec(name, fields=frozenset({f"{name}.value"})) for name in "abc"]
    for provider in world.providers.values():
        provider.fields.pop("shared")
    result = await (await world.process(*specs)).lookup(
        "word", "apple", LookupOptions(Selection(fields={"b.value"}))
    )
    assert status(result) == {"a": "skipped", "b": "ok", "c": "skipped"}
    assert not world.providers["a"].requests


# What the settings decide


async def test_a_source_that_needs_a_key_is_skipped_without_one_and_gets_it_with_one(world: World) -> None:
    await three(world)
    specs = [spec("a", key="required"), spec("b", key="optional"), spec("c")]
    result = await (await world.process(*specs)).lookup("word", "apple")
    assert (status(result)["a"], row(result, "a")["detail"]) == ("skipped", "no_key")
    assert not result.partial
    keyed = await world.process(*specs, providers={"a": {"key": "s3cret"}, "b": {"key": "other"}})
    await keyed.lookup("word", "pear")
    assert world.providers["a"].requests[-1].headers["x-key"] == "s3cret"
    assert world.providers["b"].requests[-1].headers["x-key"] == "other"
    assert "x-key" not in world.providers["c"].requests[-1].headers


async def test_a_source_that_is_off_by_default_can_be_switched_on(world: World) -> None:
    await three(world)
    specs = [spec("a", enabled=False), spec("b")]
    off = await (await world.process(*specs)).lookup("word", "apple")
    assert row(off, "a")["detail"] == "disabled"
    on = await world.process(*specs, providers={"a": {"enabled": True}})
    assert status(await on.lookup("word", "apple"))["a"] == "ok"


async def test_local_only_asks_nobody(world: World) -> None:
    await three(world)
    with pytest.raises(NoProvider) as refused:
        await (await world.process(local_only=True)).lookup("word", "apple")
    assert {provider["detail"] for provider in refused.value.details["providers"]} == {"local_only"}
    assert not any(provider.requests for provider in world.providers.values())


# What is kept


@pytest.fixture
def borrowed(monkeypatch: pytest.MonkeyPatch) -> list[Database]:
    """Whose connections were used, in order."""
    used: list[Database] = []
    connection = Database.connection

    def counted(self: Database) -> Any:
        used.append(self)
        return connection(self)

    monkeypatch.setattr(Database, "connection", counted)
    return used


async def test_a_kept_lookup_asks_postgres_once_for_all_its_sources(
    world: World, borrowed: list[Database]
) -> None:
    await three(world)
    await (await world.process()).lookup("word", "apple")
    another = await world.process()
    borrowed.clear()
    assert (await another.lookup("word", "apple")).cached
    assert len(borrowed) == 1
    assert (await another.lookup("word", "apple")).cached
    assert len(borrowed) == 1, "the process remembers it"


async def test_the_kept_answers_of_lookups_at_one_moment_are_read_together(
    world: World, borrowed: list[Database]
) -> None:
    await three(world)
    first, another = await world.process(), await world.process()
    words = [f"apple{chr(97 + number)}" for number in range(20)]
    for word in words:
        await first.lookup("word", word)
    borrowed.clear()
    results = await asyncio.gather(*(another.lookup("word", word) for word in words))
    assert all(result.cached for result in results)
    assert len(borrowed) <= 4


async def test_a_large_answer_is_kept_in_postgres_alone(world: World, borrowed: list[Database]) -> None:
    await world.provider("a", shared="x" * 100_000)
    await world.provider("b", b__value=1)
    lookups = await world.process()
    await lookups.lookup("word", "apple")
    borrowed.clear()
    for asked in (1, 2):
        assert (await lookups.lookup("word", "apple", LookupOptions(max_age=3600))).cached
        assert len(borrowed) == asked


async def test_failures_of_the_last_moment_come_from_memory(world: World) -> None:
    (await world.provider("a")).says(500)
    await world.provider("b", b__value=1)
    lookups = await world.process()
    first, second = [await lookups.lookup("word", "apple") for _ in range(2)]
    assert status(second)["a"] == status(first)["a"] == "error"
    assert len(world.providers["a"].requests) == 1
    await lookups.lookup("word", "apple", LookupOptions(max_age=0))
    assert len(world.providers["a"].requests) == 2, "who wants no kept answer wants no remembered failure"


async def test_an_answer_is_kept_for_the_next_time(world: World) -> None:
    await three(world)
    lookups = await world.process()
    first, second = [await lookups.lookup("word", "apple") for _ in range(2)]
    assert (first.cached, second.cached) == (False, True)
    assert second.data == first.data
    assert second.sources == first.sources
    assert {(p["status"], p["cached"]) for p in second.reports()} == {("cached", True)}
    assert {len(provider.requests) for provider in world.providers.values()} == {1}


async def test_an_answer_is_kept_for_all_processes(world: World) -> None:
    await three(world)
    await (await world.process()).lookup("word", "apple")
    result = await (await world.process()).lookup("word", "apple")
    assert result.cached
    assert {len(provider.requests) for provider in world.providers.values()} == {1}


async def test_nothing_that_is_kept_can_be_read_in_the_table(world: World) -> None:
    await world.provider("a", a__value=1, shared="personal@example.com")
    await (await world.process()).lookup("word", "secretword")
    async with world.database.connection() as connection:
        rows = await (
            await connection.execute("select lookup_answers::text as row from lookup_answers")
        ).fetchall()
        raw = await (await connection.execute("select sealed, query_hash from lookup_answers")).fetchall()
    assert len(rows) == 1
    for text in ("secretword", "personal"):
        assert text not in rows[0]["row"]
        assert text.encode() not in raw[0]["sealed"] + raw[0]["query_hash"]


async def test_what_another_key_sealed_is_as_good_as_not_kept(world: World) -> None:
    await world.provider("a", a__value=1)
    await (await world.process()).lookup("word", "apple")
    other = Keyring(["another key of at least thirty-two characters"])
    result = await (await world.process(keyring=other)).lookup("word", "apple")
    assert status(result) == {"a": "ok"}


async def test_an_answer_that_has_expired_is_asked_for_again(world: World) -> None:
    await world.provider("a", a__value=1)
    await (await world.process()).lookup("word", "apple")
    world.providers["a"].fields["a.value"] = 2
    await age(world, 3601)
    result = await (await world.process()).lookup("word", "apple")
    assert (result.data["a"]["value"], status(result)) == (2, {"a": "ok"})


async def test_an_empty_answer_is_kept_for_a_shorter_time(world: World) -> None:
    (await world.provider("a")).says(410)
    await (await world.process()).lookup("word", "apple")
    result = await (await world.process()).lookup("word", "apple")
    assert (status(result), row(result, "a")["fields"]) == ({"a": "cached"}, [])
    await age(world, 61)
    assert status(await (await world.process()).lookup("word", "apple")) == {"a": "empty"}


async def test_an_answer_of_an_older_parser_is_not_used(world: World) -> None:
    await world.provider("a", a__value=1)
    await (await world.process()).lookup("word", "apple")
    newer = await world.process(spec("a", parser_version=2))
    assert status(await newer.lookup("word", "apple")) == {"a": "ok"}


@pytest.mark.parametrize(("max_age", "expected"), [(None, "cached"), (100, "cached"), (10, "ok"), (0, "ok")])
async def test_a_caller_can_ask_for_a_fresher_answer(
    max_age: float | None, expected: str, world: World
) -> None:
    await world.provider("a", a__value=1)
    await (await world.process()).lookup("word", "apple")
    await age(world, 50)
    lookups = await world.process()
    assert status(await lookups.lookup("word", "apple", LookupOptions(max_age=max_age))) == {"a": expected}
    if max_age is None:
        assert status(await lookups.lookup("word", "apple", LookupOptions(max_age=10))) == {"a": "ok"}


@pytest.mark.parametrize("code", [401, 429, 500, 302])
async def test_when_the_source_fails_an_expired_answer_stands_in(code: int, world: World) -> None:
    await world.provider("a", a__value=1)
    await (await world.process()).lookup("word", "apple")
    await age(world, 7200)
    world.providers["a"].says(code)
    result = await (await world.process()).lookup("word", "apple")
    assert (result.data["a"]["value"], result.cached) == (1, True)
    assert (row(result, "a")["status"], row(result, "a")["stale"]) == ("cached", True)


async def test_an_expired_answer_stands_in_only_for_so_long_and_never_for_a_fresh_one(world: World) -> None:
    await world.provider("a", a__value=1)
    await (await world.process()).lookup("word", "apple")
    await age(world, 7200)
    world.providers["a"].says(500)
    with pytest.raises(AllProvidersFailed):
        await (await world.process()).lookup("word", "apple", LookupOptions(max_age=60))
    await age(world, 7 * 86400)
    with pytest.raises(AllProvidersFailed):
        await (await world.process()).lookup("word", "apple")


async def test_what_a_process_keeps_to_itself_is_not_in_postgres(world: World) -> None:
    await world.provider("a", a__value=1)
    lookups = await world.process(spec("a", shared=False))
    for expected in ("ok", "cached"):
        assert status(await lookups.lookup("word", "apple")) == {"a": expected}
    async with world.database.connection() as connection:
        for table in ("lookup_answers", "provider_states"):
            cursor = await connection.execute(f"select count(*)::int as n from {table}")  # pyright: ignore
            assert (await cursor.fetchone()) == {"n": 0}


# Limits and breakers, over all processes


async def test_two_processes_share_one_bucket(world: World) -> None:
    await world.provider("a", a__value=1)
    specs = spec("a", rates=(Rate(5, 3600),))
    processes = [await world.process(specs) for _ in range(2)]
    words = [chr(97 + n) * 3 for n in range(20)]

    async def ask(number: int, word: str) -> str:
        try:
            return status(await processes[number % 2].lookup("word", word))["a"]
        except AllProvidersFailed as failed:
            report = failed.details["providers"][0]
            assert report["retry_after"] > 0
            return report["status"]

    outcomes = await asyncio.gather(*(ask(number, word) for number, word in enumerate(words)))
    assert sorted(outcomes) == ["ok"] * 5 + ["rate_limited"] * 15
    assert len(world.providers["a"].requests) == 5


async def test_a_bucket_refills_with_time(world: World) -> None:
    await world.provider("a", a__value=1)
    specs = spec("a", rates=(Rate(2, 60),))
    lookups = await world.process(specs)
    for word in ("one", "two"):
        await lookups.lookup("word", word)
    with pytest.raises(AllProvidersFailed) as limited:
        await lookups.lookup("word", "three")
    assert 55 < limited.value.details["providers"][0]["retry_after"] <= 60
    async with world.database.connection() as connection:
        await connection.execute("update source_windows set moments[1] = moments[1] - interval '61 seconds'")
    other = await world.process(specs)
    assert status(await other.lookup("word", "three")) == {"a": "ok"}
    with pytest.raises(AllProvidersFailed):
        await other.lookup("word", "four")


async def test_being_told_to_wait_holds_for_all_processes_and_asks_nobody(world: World) -> None:
    await world.provider("a", a__value=1)
    world.providers["a"].says(429, Retry_After="120")
    processes = [await world.process() for _ in range(2)]
    waits: list[int] = []
    for number, word in enumerate(("one", "two", "three")):
        with pytest.raises(AllProvidersFailed) as limited:
            await processes[number % 2].lookup("word", word)
        report = limited.value.details["providers"][0]
        assert report["status"] == "rate_limited"
        waits.append(report["retry_after"])
    assert all(115 <= wait <= 120 for wait in waits)
    assert len(world.providers["a"].requests) == 1


@pytest.mark.parametrize("shared", [True, False])
async def test_after_five_failures_in_a_row_a_source_is_left_alone(shared: bool, world: World) -> None:
    await world.provider("a", a__value=1)
    await world.provider("b", b__value=1)
    world.providers["a"].says(500)
    lookups = await world.process(spec("a", shared=shared), spec("b"))
    for number in range(8):
        result = await lookups.lookup("word", "w" * (number + 1))
        assert (row(result, "a")["status"], row(result, "a")["detail"]) == (
            "error",
            "http_500" if number < 5 else "cooling_down",
        )
        assert result.partial
    assert len(world.providers["a"].requests) == 5


@pytest.mark.parametrize("shared", [True, False])
async def test_requests_under_way_together_that_fail_leave_a_source_alone_no_longer_than_five_do(
    shared: bool, world: World
) -> None:
    provider = await world.provider("a", a__value=1)
    everyone = asyncio.Event()

    async def fail(request: web.Request) -> web.StreamResponse:
        if len(provider.requests) == 12:
            everyone.set()
        await everyone.wait()
        return web.Response(status=500)

    provider.respond = fail
    lookups = await world.process(spec("a", shared=shared))
    words = ("w" * (number + 1) for number in range(12))
    await asyncio.gather(*(lookups.lookup("word", word) for word in words), return_exceptions=True)
    with pytest.raises(AllProvidersFailed) as refused:
        await lookups.lookup("word", "apple")
    assert refused.value.details["providers"][0]["retry_after"] <= OPEN_SECONDS


async def test_another_process_leaves_it_alone_too_and_one_tries_when_the_time_is_over(world: World) -> None:
    await world.provider("a", a__value=1)
    world.providers["a"].says(500)
    first = await world.process()
    for number in range(5):
        with pytest.raises(AllProvidersFailed):
            await first.lookup("word", "w" * (number + 1))
    with pytest.raises(AllProvidersFailed) as refused:
        await (await world.process()).lookup("word", "apple")
    assert refused.value.details["providers"][0]["detail"] == "cooling_down"
    assert len(world.providers["a"].requests) == 5

    async with world.database.connection() as connection:
        await connection.execute("update provider_states set blocked_until = now() - interval '1 second'")
    release = world.providers["a"].hangs()
    second, third = await world.process(), await world.process()
    probe = asyncio.create_task(second.lookup("word", "apple"))
    await eventually(lambda: len(world.providers["a"].requests) == 6, what="a is asked")
    with pytest.raises(AllProvidersFailed):
        await third.lookup("word", "pear")
    release.set()
    assert status(await probe) == {"a": "ok"}
    world.providers["a"].respond = None
    assert status(await (await world.process()).lookup("word", "plum")) == {"a": "ok"}


async def test_a_success_between_failures_keeps_the_breaker_closed(world: World) -> None:
    await world.provider("a", a__value=1)
    lookups = await world.process()
    for number in range(12):
        if number % 4 == 3:
            world.providers["a"].respond = None
            await lookups.lookup("word", "w" * (number + 1))
        else:
            world.providers["a"].says(500)
            with pytest.raises(AllProvidersFailed):
                await lookups.lookup("word", "w" * (number + 1))
    assert len(world.providers["a"].requests) == 12


async def test_what_is_kept_is_used_while_a_source_is_left_alone(world: World) -> None:
    await world.provider("a", a__value=1)
    lookups = await world.process()
    await lookups.lookup("word", "apple")
    world.providers["a"].says(401)
    with pytest.raises(AllProvidersFailed):
        await lookups.lookup("word", "pear")
    result = await (await world.process()).lookup("word", "apple")
    assert (status(result), result.partial) == ({"a": "cached"}, False)


# GET /api/providers


async def test_every_source_says_how_it_is_doing(world: World) -> None:
    await three(world)
    specs = [
        spec("a", rates=(Rate(10, 60),)),
        spec("b", key="required"),
        spec("c", enabled=False),
        spec("abroken"),
    ]
    (await world.provider("abroken")).says(401)
    lookups = await world.process(*specs)
    before = {row.name: row for row in await lookups.describe()}
    assert {name: row.state for name, row in before.items()} == {
        "a": "ready", "b": "no_key", "c": "disabled", "abroken": "ready",
    }  # fmt: skip
    assert (before["a"].last_success, before["a"].error_rate) == (None, None)
    assert before["a"].quota == [
        QuotaWindow(server=None, limit=10, seconds=60, used=0, left=10, resets_at=None)
    ]
    assert before["b"].quota is None
    await lookups.lookup("word", "apple")
    for process in (lookups, await world.process(*specs)):
        after = {row.name: row for row in await process.describe()}
        assert after["abroken"].state == "cooling_down"
        assert after["abroken"].error_rate == pytest.approx(0.05)
        assert after["a"].last_success is not None
        assert after["a"].error_rate == 0


async def test_a_source_says_what_is_left_of_each_of_its_windows(world: World) -> None:
    for name in ("a", "b"):
        await world.provider(name, **{f"{name}__value": 1})
    rates = (Rate(4, 60), Rate(500, 86400))
    lookups = await world.process(
        spec("a", rates=rates, account="both"), spec("b", rates=rates, account="both")
    )
    await lookups.lookup("word", "apple")
    for row in await lookups.describe():
        assert row.quota is not None
        minute, day = row.quota
        assert (minute.limit, minute.seconds, minute.used, minute.left) == (4, 60, 2, 2)
        assert (day.limit, day.seconds, day.used, day.left) == (500, 86400, 2, 498)
        assert minute.resets_at is not None and day.resets_at is not None
        assert timedelta(0) < minute.resets_at - datetime.now(UTC) <= timedelta(seconds=60)


async def test_the_rate_of_an_operators_plan_is_that_of_all_sources_of_its_account(world: World) -> None:
    for name in ("a", "b"):
        await world.provider(name, **{f"{name}__value": 1})
    rates = (Rate(4, 60),)
    specs = [spec("a", rates=rates, account="a"), spec("b", rates=rates, account="a")]
    plan = {"a": {"rate": "600/60,50000/86400"}}
    for settings, limits in ((plan, [600, 50_000]), ({"a": {"rate": "off"}}, None)):
        rows = await (await world.process(*specs, providers=settings)).describe()
        assert [row.quota and [window.limit for window in row.quota] for row in rows] == [limits, limits]


async def test_being_limited_is_no_error(world: World) -> None:
    await world.provider("a", a__value=1)
    await world.provider("b", b__value=1)
    world.providers["b"].says(429, Retry_After="120")
    lookups = await world.process(spec("a", rates=(Rate(1, 60),)), spec("b"))
    await lookups.lookup("word", "apple")
    with pytest.raises(AllProvidersFailed):
        await lookups.lookup("word", "pear")
    told = {row.name: row for row in await lookups.describe()}
    for name in ("a", "b"):
        assert (told[name].error_rate, told[name].limited_rate) == (0, pytest.approx(0.05))
    assert (told["a"].state, told["b"].state) == ("ready", "cooling_down")


@pytest.mark.parametrize(
    "rate", ["many", "1", "0/60", "4/60,", "4/60;5/70", "4/60,5/60", "1/1,1/2,1/3,1/4,1/5"]
)
def test_a_rate_that_does_not_fit_is_refused_by_its_name(rate: str) -> None:
    with pytest.raises(StartError, match=r"^VEDETTE_PROVIDER_VIRUSTOTAL_RATE: (give 1 to 4|two of the)"):
        load({"VEDETTE_PROVIDER_VIRUSTOTAL_RATE": rate})


def test_the_rate_of_a_source_without_a_key_of_its_own_is_said_to_be_ignored() -> None:
    environ = {
        "VEDETTE_PROVIDER_VIRUSTOTALDOMAIN_RATE": "off",
        "VEDETTE_PROVIDER_VIRUSTOTAL_RATE": "9/60, 9/70",
    }
    assert warnings(environ) == [
        "VEDETTE_PROVIDER_VIRUSTOTALDOMAIN_RATE is ignored: VEDETTE_PROVIDER_VIRUSTOTAL_RATE is for all"
        " sources that are asked with one key."
    ]
    shown = {row.name: row.value for row in effective(load(environ), environ)}
    assert shown["VEDETTE_PROVIDER_VIRUSTOTAL_RATE"] == "9/60,9/70"
    assert shown["VEDETTE_PROVIDER_VIRUSTOTALDOMAIN_RATE"] == "off"


async def test_a_lookup_goes_on_while_postgres_is_away(world: World) -> None:
    await world.provider("a", a__value=1)
    away = Database("postgresql://nobody@127.0.0.1:9/none", name="away")
    local = await world.process(spec("a", shared=False), database=away)
    assert status(await local.lookup("word", "apple")) == {"a": "ok"}
    shared = await world.process(database=away)
    with pytest.raises(AllProvidersFailed) as failed:
        await shared.lookup("word", "apple")
    assert failed.value.details["providers"][0]["detail"] == "database"


async def test_an_answer_that_came_is_given_though_it_cannot_be_kept(world: World) -> None:
    await world.provider("a", a__value=1)
    own = Database(world.database.url, name="closing")
    await own.open()
    lookups = await world.process(database=own)
    release = world.providers["a"].hangs()
    lookup = asyncio.create_task(lookups.lookup("word", "apple"))
    await eventually(lambda: bool(world.providers["a"].requests), what="a is asked")
    await own.close()
    release.set()
    assert (await lookup).data["a"]["value"] == 1


async def test_what_a_source_could_not_find_out_is_kept_with_its_answer(world: World) -> None:
    await world.provider("a", **{"a.value": "?", "shared": "amber"})
    processes = [await world.process() for _ in range(2)]
    results = [
        await one.lookup("word", "apple", LookupOptions(max_age=age))
        for one in processes
        for age in (None, 60)
    ]
    outcomes = [outcome for result in results for _, outcome in result.outcomes]
    assert [outcome.status for outcome in outcomes] == ["ok", "cached", "cached", "cached"]
    assert all(outcome.unsure == {"a.value"} for outcome in outcomes)
    assert all(outcome.fields == {"shared": "amber"} for outcome in outcomes)


async def test_what_another_address_has_answered_is_not_taken_for_this_ones(world: World) -> None:
    own = await world.provider("a", a__value=1)
    await (await world.process(spec("a"))).lookup("word", "apple")
    await world.provider("a", a__value=2)  # at another address now
    found = await (await world.process(spec("a"))).lookup("word", "apple")
    assert (found.data["a"]["value"], found.cached) == (2, False)
    assert len(own.requests) == 1


async def test_an_address_that_the_operator_has_set_is_shown_without_credentials(world: World) -> None:
    provider = await world.provider("a", a__value=1)
    provider.url = provider.url.replace("://", "://ada:secret@")
    [shown] = await (await world.process(spec("a"))).describe()
    assert shown.address == provider.url.replace("ada:secret@", "")
    assert shown.attribution == f"a; by way of {shown.address}"
    [plain] = await (await world.process(spec("a"), providers={"a": {"base_url": None}})).describe()
    assert (plain.address, plain.attribution) == (None, "a")
