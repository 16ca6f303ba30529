"""Many lookups at once without asking anyone: the same answers as one by one, or none."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from database import Database
from models.accounts import suppressions
from models.errors import DomainError, Invalid
from models.lookups.lookups import AllProvidersFailed
from outbound.client import Outbound
from providers.lookup.composition import Selection
from providers.lookup.lookup import Lookups
from providers.lookup.questions import LookupOptions
from providers.lookup.result import LookupResult, is_suppressed
from providers.registry import KINDS, lookup_fields
from sealing import Keyring
from settings import Settings
from tests.datasets import CITIES, LISTS, NETWORKS, write_cities, write_small_datasets
from tests.lookups.conftest import World, spec

Open = Callable[..., Awaitable[Lookups]]

_NETWORKS = [
    *CITIES,
    *(network for tables in LISTS.values() for rows in tables.values() for network, _ in rows),
    *(first for first, _, _ in NETWORKS),
]
_KNOWN = sorted({network.partition("/")[0] for network in _NETWORKS})
_SPECIAL = ["10.0.0.1", "127.0.0.1", "224.0.0.1", "::1", "fd00::1", "::ffff:10.0.0.1", "2001:db8::1"]
_WRONG = ["", "8.8.8", "ada@", "-", "no such thing at all"]
_QUERIES: dict[str, list[str]] = {
    "ip": [*_KNOWN, *_SPECIAL, *_WRONG],
    "validate": ["nonsense", *_WRONG],
}
_MAILS = ("suppressed@example.com", "other@example.com")
_PERSONS = {"email": _MAILS, "breach": _MAILS, "phone": ("+14155552671", "+14155552672")}
"""Kinds whose queries are persons, and two of these."""
_ADDRESSES = st.one_of(
    st.integers(0, 2**32 - 1).map(lambda n: str(IPv4Address(n))),
    st.integers(0, 2**128 - 1).map(lambda n: str(IPv6Address(n))),
)


@pytest.fixture
async def open_lookups(database: Database, keyring: Keyring, tmp_path: Path) -> AsyncGenerator[Open]:
    """Opens lookups of all kinds over the test's data folder, on this machine alone."""
    async with AsyncExitStack() as stack:

        async def opened(**changes: Any) -> Lookups:
            configured = Settings.model_validate({"data": tmp_path, "local_only": True, **changes})
            outbound = await stack.enter_async_context(Outbound(configured))
            lookups = Lookups(configured, database, keyring, outbound)
            await lookups.open()
            stack.push_async_callback(lookups.close)
            return lookups

        yield opened


def told(answer: LookupResult | DomainError, fields: list[str] | None) -> Any:
    """All that an answer says but how long it took."""
    if isinstance(answer, LookupResult):
        body = answer.answer(shown="all", fields=fields)
        return body | {"providers": [{**report, "ms": 0} for report in body["providers"]]}
    details: list[dict[str, Any]] = answer.details.get("providers", [])
    named = answer.errors if isinstance(answer, Invalid) else []
    return answer.code, answer.message, [{**report, "ms": 0} for report in details], named


async def one_by_one(
    lookups: Lookups, kind: str, queries: list[str], fields: list[str] | None
) -> list[LookupResult | DomainError]:
    answers: list[LookupResult | DomainError] = []
    for query in queries:
        try:
            answers.append(await lookups.lookup(kind, query, LookupOptions(Selection(fields=fields))))
        except DomainError as error:
            answers.append(error)
    return answers


@pytest.fixture
async def lookups(open_lookups: Open, tmp_path: Path) -> Lookups:
    """Lookups in small data, opened once for all examples."""
    write_small_datasets(tmp_path)
    return await open_lookups()


@st.composite
def questions(draw: st.DrawFn) -> tuple[str, list[str], list[str] | None]:
    """A kind, what is looked up, and the only fields that are wanted."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    query = st.sampled_from(_QUERIES.get(kind, [KINDS[kind].example, "acme.com", *_WRONG]))
    queries = draw(st.lists(st.one_of(query, _ADDRESSES) if kind == "ip" else query, max_size=12))
    some = st.lists(st.sampled_from(sorted(lookup_fields()[kind])), min_size=1, max_size=3, unique=True)
    return kind, queries, draw(st.one_of(st.none(), some))


@given(asked=questions())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_many_are_answered_as_each_would_be(
    asked: tuple[str, list[str], list[str] | None], lookups: Lookups
) -> None:
    kind, queries, fields = asked
    together = await lookups.offline_answers.find_many(kind, queries, Selection(fields=fields))
    singly = await one_by_one(lookups, kind, queries, fields)
    assert [one and told(one, fields) for one in together] == [told(one, fields) for one in singly]


@pytest.mark.parametrize("missing", ["dbip-city", "asn", "tor"])
async def test_without_some_data_many_are_answered_as_each_would_be(
    missing: str, open_lookups: Open, tmp_path: Path
) -> None:
    write_small_datasets(tmp_path)
    for path in (tmp_path / "datasets").glob(f"{missing}-*"):
        path.unlink()
    lookups = await open_lookups()
    together = await lookups.offline_answers.find_many("ip", _QUERIES["ip"])
    assert any(one.partial for one in together if isinstance(one, LookupResult))
    singly = await one_by_one(lookups, "ip", _QUERIES["ip"], None)
    assert [one and told(one, None) for one in together] == [told(one, None) for one in singly]


async def test_data_of_another_sort_than_it_should_be_is_told_of_many_too(
    open_lookups: Open, tmp_path: Path
) -> None:
    write_small_datasets(tmp_path)
    write_cities(tmp_path, {"8.8.8.0/24": CITIES["8.8.8.0/24"] | {"city": 5}})
    lookups = await open_lookups()
    [together] = await lookups.offline_answers.find_many("ip", ["8.8.8.8"])
    assert isinstance(together, LookupResult)
    assert {"name": "dbip", "status": "bad_response"}.items() <= together.reports("failed")[0].items()
    [single] = await one_by_one(lookups, "ip", ["8.8.8.8"], None)
    assert told(together, None) == told(single, None)


@pytest.mark.parametrize("kind", _PERSONS)
async def test_of_persons_who_are_suppressed_nothing_is_told_and_of_others_all(
    kind: str, open_lookups: Open, database: Database, keyring: Keyring
) -> None:
    lookups = await open_lookups()
    person, other = _PERSONS[kind]
    async with database.transaction() as connection:
        await suppressions.add(connection, keyring, person)
    found, told_of = await lookups.offline_answers.find_many(kind, [person, other])
    async with database.transaction() as connection:
        await suppressions.remove(connection, keyring, person)
    assert isinstance(found, LookupResult) and is_suppressed(found.outcomes) and found.credits == 0
    assert not (isinstance(told_of, LookupResult) and is_suppressed(told_of.outcomes))


async def test_a_source_in_the_network_is_left_to_who_can_ask_it_unless_it_is_not_wanted(
    open_lookups: Open,
) -> None:
    lookups = await open_lookups(local_only=False)
    assert await lookups.offline_answers.find_many("ip", ["8.8.8.8"]) == [None]
    assert None not in await lookups.offline_answers.find_many(
        "ip", ["8.8.8.8"], Selection(fields=["location.city"])
    )


async def test_what_is_kept_of_a_source_is_told_without_asking_it_again(world: World) -> None:
    provider = await world.provider("a", a__value=1)
    first, second = await world.process(spec("a")), await world.process(spec("a"))
    single = await first.lookup("word", "apple")
    [known, unknown] = await second.offline_answers.find_many("word", ["apple", "berry"])
    assert isinstance(known, LookupResult) and unknown is None
    assert (known.data, known.cached) == (single.data, True)
    assert len(provider.requests) == 1


async def test_a_source_that_is_known_to_fail_is_told_to_and_what_others_say_beside_it(world: World) -> None:
    for name in ("a", "b"):
        await world.provider(name, **{f"{name}__value": 1})
    lookups = await world.process(spec("a"), spec("b"))
    world.providers["a"].says(500)
    for number in range(7):
        await lookups.lookup("word", "x" * (number + 1))
    single = await lookups.lookup("word", "x")
    [known, other] = await lookups.offline_answers.find_many("word", ["x", "y"])
    assert isinstance(known, LookupResult) and other is None
    assert [one["status"] for one in known.reports()] == ["error", "cached"]
    assert known.data == single.data and known.partial


async def test_a_source_that_is_known_to_be_over_its_limit_is_told_to_be(world: World) -> None:
    provider = await world.provider("a", a__value=1)
    provider.says(429, Retry_After="120")
    lookups = await world.process(spec("a"))
    with pytest.raises(AllProvidersFailed):
        await lookups.lookup("word", "apple")
    [known] = await lookups.offline_answers.find_many("word", ["apple"])
    assert isinstance(known, AllProvidersFailed)
    assert [one["status"] for one in known.details["providers"]] == ["rate_limited"]
