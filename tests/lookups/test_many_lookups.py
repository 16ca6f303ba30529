"""Many lookups at once in the data on this machine: the same answers as one by one, or none at all."""

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
from models.errors import Invalid, ModelError
from outbound.client import Outbound
from providers.lookup import Lookups
from providers.registry import KINDS, lookup_fields
from providers.result import LookupResult
from sealing import Keyring
from settings import Settings
from tests.datasets import CITIES, LISTS, NETWORKS, write_cities, write_small_datasets

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
# What they look up is a person.
_PERSONS = ("email", "phone", "breach")
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


def told(answer: LookupResult | ModelError, fields: list[str] | None) -> Any:
    """All that an answer says but how long it took."""
    if isinstance(answer, LookupResult):
        body = answer.answer(shown="all", fields=fields)
        return body | {"providers": [{**report, "ms": 0} for report in body["providers"]]}
    details: list[dict[str, Any]] = answer.details.get("providers", [])
    named = answer.errors if isinstance(answer, Invalid) else []
    return answer.code, answer.message, [{**report, "ms": 0} for report in details], named


async def one_by_one(
    lookups: Lookups, kind: str, queries: list[str], fields: list[str] | None
) -> list[LookupResult | ModelError]:
    answers: list[LookupResult | ModelError] = []
    for query in queries:
        try:
            answers.append(await lookups.lookup(kind, query, fields=fields))
        except ModelError as error:
            answers.append(error)
    return answers


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
    asked: tuple[str, list[str], list[str] | None], open_lookups: Open, tmp_path: Path
) -> None:
    kind, queries, fields = asked
    write_small_datasets(tmp_path)
    lookups = await open_lookups()
    together = lookups.find_many(kind, queries, fields=fields)
    if together is None:
        assert kind in _PERSONS
        return
    singly = await one_by_one(lookups, kind, queries, fields)
    assert [told(one, fields) for one in together] == [told(one, fields) for one in singly]


@pytest.mark.parametrize("missing", ["dbip-city", "asn", "tor"])
async def test_without_some_data_many_are_answered_as_each_would_be(
    missing: str, open_lookups: Open, tmp_path: Path
) -> None:
    write_small_datasets(tmp_path)
    for path in (tmp_path / "datasets").glob(f"{missing}-*"):
        path.unlink()
    lookups = await open_lookups()
    together = lookups.find_many("ip", _QUERIES["ip"])
    assert together is not None
    assert any(one.partial for one in together if isinstance(one, LookupResult))
    singly = await one_by_one(lookups, "ip", _QUERIES["ip"], None)
    assert [told(one, None) for one in together] == [told(one, None) for one in singly]


async def test_data_of_another_sort_than_it_should_be_is_told_of_many_too(
    open_lookups: Open, tmp_path: Path
) -> None:
    write_small_datasets(tmp_path)
    write_cities(tmp_path, {"8.8.8.0/24": CITIES["8.8.8.0/24"] | {"city": 5}})
    lookups = await open_lookups()
    [together] = lookups.find_many("ip", ["8.8.8.8"]) or []
    assert isinstance(together, LookupResult)
    assert {"name": "dbip", "status": "bad_response"}.items() <= together.reports("failed")[0].items()
    [single] = await one_by_one(lookups, "ip", ["8.8.8.8"], None)
    assert told(together, None) == told(single, None)


@pytest.mark.parametrize("kind", _PERSONS)
async def test_persons_are_left_to_who_can_ask_whether_they_are_suppressed(
    kind: str, open_lookups: Open
) -> None:
    assert (await open_lookups()).find_many(kind, [KINDS[kind].example]) is None


async def test_one_person_among_others_leaves_all_of_them_to_others(open_lookups: Open) -> None:
    lookups = await open_lookups()
    assert lookups.find_many("validate", ["nonsense"]) is not None
    assert lookups.find_many("validate", ["nonsense", "ada@example.com"]) is None


async def test_a_source_in_the_network_answers_nothing_here_unless_it_is_not_wanted(
    open_lookups: Open,
) -> None:
    lookups = await open_lookups(local_only=False)
    assert lookups.find_many("ip", ["8.8.8.8"]) is None
    assert lookups.find_many("ip", ["8.8.8.8"], fields=["location.city"]) is not None
