"""Sources with a server for each registry: every one has a pace and a breaker of its own."""

from __future__ import annotations

from uuid import UUID

import pytest

from database import Database
from models.lookups.lookups import AllProvidersFailed
from models.lookups.provider_states import FAILURES_TO_OPEN
from outbound.client import Outbound
from providers.domain import bootstrap, rdapdomain, whois
from providers.domain.kind import normalise
from providers.ip import rdap
from providers.lookup.lookup import Lookups
from providers.lookup.questions import LookupOptions
from providers.lookup.result import LookupResult
from providers.lookup.waiter import Waiter
from providers.registry import KINDS
from providers.sources.base import Context, RemoteSource
from sealing import Keyring
from services.pacing import warnings_of_monitor
from settings import Rate, Settings
from tests.lookups.conftest import World, spec

HOUR = 3600


async def both(world: World, **changes: object) -> Lookups:
    """A source that answers everything, and `b`, which asks a server for each letter."""
    await world.provider("a", a__value=1)
    await world.provider("b", b__value=2)
    return await world.process(spec("a"), spec("b", per_server=True, **changes))


def became(result: LookupResult) -> tuple[str, str | None]:
    """Return what became of `b`, and at which server."""
    [report] = [one for one in result.reports() if one["name"] == "b"]
    return report["status"], report.get("server")


async def test_each_registry_is_asked_at_its_own_pace(world: World) -> None:
    lookups = await both(world, rates=(Rate(2, HOUR),), server_rates={"c": (Rate(1, HOUR),)})
    words = ["apple", "avocado", "almond", "banana", "cherry", "currant"]
    found = [became(await lookups.lookup("word", word)) for word in words]
    limited = "rate_limited"
    assert found == [("ok", None), ("ok", None), (limited, "a"), ("ok", None), ("ok", None), (limited, "c")]
    [row] = [one for one in await lookups.describe() if one.name == "b"]
    assert [(one.server, one.limit, one.left) for one in row.quota or ()] == [
        ("a", 2, 0),
        ("b", 2, 1),
        ("c", 1, 0),
    ]
    assert row.limited_rate


async def test_an_unused_source_shows_what_any_registry_gives(world: World) -> None:
    lookups = await both(world, rates=(Rate(2, HOUR),))
    [row] = [one for one in await lookups.describe() if one.name == "b"]
    assert [(one.server, one.limit, one.left) for one in row.quota or ()] == [(None, 2, 2)]


async def test_the_operators_rate_is_that_of_each_registry(world: World) -> None:
    await world.provider("a", a__value=1)
    await world.provider("b", b__value=2)
    own = {"b": {"rate": "1/3600"}}
    lookups = await world.process(
        spec("a"), spec("b", per_server=True, server_rates={"a": (Rate(9, HOUR),)}), providers=own
    )
    words = ["apple", "avocado", "banana"]
    found = [became(await lookups.lookup("word", word))[0] for word in words]
    assert found == ["ok", "rate_limited", "ok"]


async def test_a_registry_that_refuses_or_fails_is_left_alone_and_no_other(world: World) -> None:
    lookups = await both(world)
    world.providers["b"].says(429, retry_after="900")
    assert became(await lookups.lookup("word", "apple")) == ("rate_limited", "a")
    world.providers["b"].says(500)
    for letter in "abcdefg"[:FAILURES_TO_OPEN]:
        assert became(await lookups.lookup("word", f"b{letter}")) == ("error", "b")
    world.providers["b"].respond = None
    asked = len(world.providers["b"].requests)
    assert became(await lookups.lookup("word", "avocado")) == ("rate_limited", "a")
    assert became(await lookups.lookup("word", "bilberry")) == ("error", "b")
    assert len(world.providers["b"].requests) == asked
    assert became(await lookups.lookup("word", "cherry")) == ("ok", None)
    # Another process knows it too.
    other = await world.process(spec("a"), spec("b", per_server=True))
    assert became(await other.lookup("word", "almond")) == ("rate_limited", "a")


async def test_a_query_without_a_server_is_skipped_and_a_failed_search_for_one_is_a_failure(
    world: World,
) -> None:
    lookups = await both(world)
    assert became(await lookups.lookup("word", "zest")) == ("skipped", None)
    for letter in "abcdefg"[:FAILURES_TO_OPEN]:
        assert became(await lookups.lookup("word", f"y{letter}")) == ("error", None)
    [report] = [one for one in (await lookups.lookup("word", "yy")).reports() if one["name"] == "b"]
    assert report["detail"] == "cooling_down"


async def test_who_waits_and_who_does_not_have_their_shares_of_each_registry(world: World) -> None:
    await world.provider("b", b__value=2)
    lookups = await world.process(spec("b", per_server=True, rates=(Rate(5, HOUR),)))
    waiter = Waiter(UUID(int=1))
    for word in ("aa", "ab", "ac", "ad"):
        await lookups.lookup("word", word, LookupOptions(waiter=waiter))
    with pytest.raises(AllProvidersFailed) as refused:
        await lookups.lookup("word", "ae", LookupOptions(waiter=waiter))
    assert refused.value.details["providers"][0]["server"] == "a"
    assert became(await lookups.lookup("word", "ba", LookupOptions(waiter=waiter))) == ("ok", None)
    assert became(await lookups.lookup("word", "ae")) == ("ok", None)


# The registries that there are


@pytest.mark.parametrize("source", [rdap.SOURCE, rdapdomain.SOURCE, whois.SOURCE])
def test_what_frowns_on_bulk_has_a_pace_for_each_registry(source: RemoteSource) -> None:
    assert source.spec.per_server and source.server_of and source.spec.rates
    assert not source.spec.bulk


def test_what_a_registry_publishes_is_its_pace(settings: Settings) -> None:
    nominet = (Rate(5, 1), Rate(1000, 86_400))
    assert rdapdomain.SOURCE.bind_server("rdap.nominet.uk").spec.get_rates(settings) == nominet
    assert whois.SOURCE.bind_server("whois.nic.uk").spec.get_rates(settings) == nominet
    assert whois.SOURCE.bind_server("whois.example").spec.get_rates(settings) == (Rate(12, 60),)


async def test_the_server_of_a_domain_is_that_of_its_registry(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = bootstrap._Known({"com": "https://rdap.example/com/v1"}, float("inf"))  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setitem(bootstrap._known, bootstrap.IANA, known)  # pyright: ignore[reportPrivateUsage]
    async with Outbound(settings) as outbound:
        client = outbound.provider_client("rdapdomain")
        query = normalise("www.example.com", "/domain")
        assert await rdapdomain.server_of(query, Context(client, bootstrap.IANA, None, 6)) == "rdap.example"
        own = Context(client, "http://127.0.0.1:9/rdap", None, 6)
        assert await rdapdomain.server_of(query, own) == "127.0.0.1:9"
        address = KINDS["ip"].normalise("8.8.8.8", "/ip")
        assert await rdap.server_of(address, own) == "127.0.0.1:9"


async def test_a_warning_says_that_the_pace_is_that_of_a_registry(
    settings: Settings, database: Database, keyring: Keyring
) -> None:
    on = settings.model_copy(update={"local_only": False})
    async with Outbound(on) as outbound:
        lookups = Lookups(on, database, keyring, outbound)
        asked = lookups.select_sources("domain", ["whois.registrar"])
    messages = [one["message"] for one in warnings_of_monitor(asked, 1_000, 28 * 86_400)]
    assert messages[0].startswith(
        "rdapdomain allows 60 requests in 60 s to each registry: 1,000 targets of one registry take "
    )
