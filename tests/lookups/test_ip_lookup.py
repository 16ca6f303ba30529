"""An IP lookup as a whole: the local data, the special addresses, and a name server that may be away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import dns.flags
import dns.message
import dns.rrset
import pytest

from database import Database
from models.errors import Invalid
from models.lookups.lookups import AllProvidersFailed, NoProvider
from outbound.client import Outbound
from providers.ip import asn, dbip, ptr, reserved
from providers.ip import kind as ip
from providers.ip.answer import IpAnswer
from providers.lookup.composition import Selection
from providers.lookup.lookup import LookupResult, Lookups
from providers.lookup.questions import LookupOptions
from sealing import Keyring
from settings import Settings
from tests.datasets import write_cities, write_small_datasets

# The sources that every installation has, without those that ask further services.
KIND = replace(ip.KIND, sources=(reserved.SOURCE, dbip.SOURCE, asn.SOURCE, ptr.SOURCE))

Open = Callable[..., Awaitable[Lookups]]


@pytest.fixture
async def open_lookups(database: Database, keyring: Keyring, tmp_path: Path) -> AsyncGenerator[Open]:
    """Opens lookups over the test's data folder."""
    async with AsyncExitStack() as stack:

        async def opened(**settings: Any) -> Lookups:
            configured = Settings.model_validate({"data": tmp_path, **settings})
            outbound = await stack.enter_async_context(Outbound(configured))
            lookups = Lookups(configured, database, keyring, outbound, kinds={"ip": KIND})
            await lookups.open()
            stack.push_async_callback(lookups.close)
            return lookups

        yield opened


class NameServer(asyncio.DatagramProtocol):
    """Says `host.example` for every address, or nothing at all."""

    def __init__(self) -> None:
        self.silent = False
        self.asked = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.asked += 1
        if self.silent:
            return
        question = dns.message.from_wire(data)
        answer = dns.message.make_response(question)
        answer.flags |= dns.flags.RA
        name = question.question[0].name
        answer.answer.append(dns.rrset.from_text(name, 60, "IN", "PTR", "Host.example."))
        self.transport.sendto(answer.to_wire(), addr)


@pytest.fixture
async def name_server() -> AsyncGenerator[tuple[NameServer, dict[str, Any]]]:
    transport, server = await asyncio.get_running_loop().create_datagram_endpoint(
        NameServer, local_addr=("127.0.0.1", 0)
    )
    port = transport.get_extra_info("sockname")[1]
    yield server, {"providers": {"ptr": {"base_url": f"dns://127.0.0.1:{port}"}}}
    transport.close()


def status(result: LookupResult) -> dict[str, str]:
    return {row["name"]: row["status"] for row in result.reports()}


@pytest.mark.parametrize(
    ("address", "city", "country", "continent", "number", "zone"),
    [
        ("8.8.8.8", "Mountain View", "United States", "North America", 15169, "America/Los_Angeles"),
        ("1.1.1.1", "Sydney", "Australia", "Oceania", 13335, "Australia/Sydney"),
        ("2606:4700::1111", "Montreal", "Canada", "North America", 13335, "America/Toronto"),
    ],
)
async def test_the_local_data_answers_without_asking_anyone(
    address: str, city: str, country: str, continent: str, number: int, zone: str,
    open_lookups: Open, tmp_path: Path,
) -> None:  # fmt: skip
    write_small_datasets(tmp_path)
    result = await (await open_lookups(local_only=True)).lookup("ip", address)
    answer = IpAnswer.model_validate(result.answer())
    assert (answer.ip_address, answer.location.city) == (address, city)
    assert (answer.location.country, answer.location.continent) == (country, continent)
    assert (answer.asn.asn, answer.timezone.name) == (number, zone)
    assert answer.timezone.utc_offset is not None
    assert (answer.credits, answer.cached, answer.partial) == (0, False, False)
    assert status(result) == {"reserved": "skipped", "dbip": "ok", "asn": "ok", "ptr": "skipped"}
    assert answer.sources["location.city"] == ["dbip"]


async def test_who_wants_only_what_clocks_show_has_the_zone_asked_for(
    open_lookups: Open, tmp_path: Path
) -> None:
    write_small_datasets(tmp_path)
    lookups = await open_lookups(local_only=True)
    result = await lookups.lookup("ip", "8.8.8.8", LookupOptions(Selection(fields=["timezone.utc_offset"])))
    assert result.data["timezone"]["utc_offset"] in (-8.0, -7.0)


async def test_what_nobody_can_know_is_null_and_never_false_or_empty(
    open_lookups: Open, tmp_path: Path
) -> None:
    write_small_datasets(tmp_path)
    data = (await (await open_lookups(local_only=True)).lookup("ip", "8.8.8.8")).data
    assert (
        set(data["security"].values())
        == set(data["threat"].values())
        == set(data["malware"].values())
        == {None}
    )
    assert data["location"]["postal_code"] is None


@pytest.mark.parametrize(
    "address", ["10.1.2.3", "127.0.0.1", "100.64.0.1", "fe80::1", "::1", "::ffff:192.168.0.1"]
)
async def test_a_private_address_is_answered_here_and_nobody_else_is_asked(
    address: str, open_lookups: Open, tmp_path: Path, name_server: tuple[NameServer, dict[str, Any]]
) -> None:
    write_small_datasets(tmp_path)
    server, settings = name_server
    result = await (await open_lookups(**settings)).lookup("ip", address)
    assert result.data["threat"]["usage_type"] == "Reserved"
    assert status(result) == {"reserved": "ok", "dbip": "skipped", "asn": "skipped", "ptr": "skipped"}
    assert (server.asked, result.partial) == (0, False)


async def test_the_owners_name_comes_from_dns_once(
    open_lookups: Open, tmp_path: Path, name_server: tuple[NameServer, dict[str, Any]]
) -> None:
    write_small_datasets(tmp_path)
    server, settings = name_server
    lookups = await open_lookups(**settings)
    results = [await lookups.lookup("ip", "8.8.8.8") for _ in range(3)]
    assert {result.data["hostname"] for result in results} == {"host.example"}
    assert [result.cached for result in results] == [False, True, True]
    assert server.asked == 1


async def test_a_name_server_that_is_away_is_soon_asked_no_more(
    open_lookups: Open, tmp_path: Path, name_server: tuple[NameServer, dict[str, Any]]
) -> None:
    write_small_datasets(tmp_path)
    server, settings = name_server
    server.silent = True
    lookups = await open_lookups(**settings)
    first = await asyncio.gather(*(lookups.lookup("ip", f"8.8.8.{n}") for n in range(5)))
    assert {status(result)["ptr"] for result in first} == {"timeout"}
    assert all(result.data["location"]["city"] == "Mountain View" and result.partial for result in first)
    asked = server.asked
    for n in range(5, 105):
        assert status(await lookups.lookup("ip", f"8.8.8.{n}"))["ptr"] == "error"
    assert server.asked == asked


async def test_without_data_and_without_a_network_there_is_no_provider(open_lookups: Open) -> None:
    lookups = await open_lookups(local_only=True)
    with pytest.raises(NoProvider, match="Lookup data is missing"):
        await lookups.lookup("ip", "8.8.8.8")
    states = {row.name: row.state for row in await lookups.describe()}
    assert states == {"reserved": "ready", "dbip": "no_data", "asn": "no_data", "ptr": "disabled"}


async def test_without_data_and_with_a_dead_name_server_every_provider_has_failed(
    open_lookups: Open, name_server: tuple[NameServer, dict[str, Any]]
) -> None:
    server, settings = name_server
    server.silent = True
    with pytest.raises(AllProvidersFailed):
        await (await open_lookups(**settings)).lookup("ip", "8.8.8.8")


async def test_without_data_the_owners_name_is_still_an_answer(
    open_lookups: Open, name_server: tuple[NameServer, dict[str, Any]]
) -> None:
    result = await (await open_lookups(**name_server[1])).lookup("ip", "8.8.8.8")
    assert (result.data["hostname"], result.partial) == ("host.example", True)


async def test_an_answer_says_what_lookup_data_it_lacks(
    open_lookups: Open, name_server: tuple[NameServer, dict[str, Any]]
) -> None:
    result = await (await open_lookups(**name_server[1])).lookup("ip", "8.8.8.8")
    said = {"dbip": "lookup data is missing: run `vedette data fetch`"}
    for shown in ("asked", "failed"):  # of the API, and of a run's step
        reports = {report["name"]: report.get("detail") for report in result.answer(shown=shown)["providers"]}
        assert said.items() <= reports.items()


async def test_data_that_comes_later_is_used_without_a_restart(
    open_lookups: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("providers.datasets.installed.time.monotonic", lambda: clock[0])
    lookups = await open_lookups(local_only=True)
    with pytest.raises(NoProvider):
        await lookups.lookup("ip", "8.8.8.8")
    for city in ("First", "Second"):
        write_cities(tmp_path, {"8.8.8.0/24": {"city": city, "country_code": "US"}})
        clock[0] += 3
        assert (await lookups.lookup("ip", "8.8.8.8")).data["location"]["city"] == city
    rows = {row.name: row for row in await lookups.describe()}
    assert (rows["dbip"].state, rows["dbip"].licence) == ("ready", "CC BY 4.0")
    assert rows["dbip"].dataset_age is not None


async def test_what_is_no_address_is_refused(open_lookups: Open) -> None:
    with pytest.raises(Invalid) as refused:
        await (await open_lookups()).lookup("ip", "example.com")
    assert (refused.value.errors[0].pointer, refused.value.errors[0].code) == ("/ip", "invalid_ip")
