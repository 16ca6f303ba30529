"""The IP sources: what each of them reads, and what it makes of it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import httpx
import pytest

from models.errors import Invalid
from outbound.guard import forbidden_address
from providers.datasets.installed import Datasets
from providers.ip import asn, dbip, ptr, reserved
from providers.ip.answer import IpAnswer
from providers.ip.kind import KIND, derive, normalise
from providers.sources.aggregate import paths
from providers.sources.base import Context, Query, SourceError
from tests import datasets as small
from tests.name_servers import Serve, Zone

FLAT = small.CITIES["8.8.8.0/24"]
# As in the publisher's own file; after https://db-ip.com/db/format/ip-to-city-lite/mmdb.html
NESTED = {
    "city": {"names": {"en": "Mountain View"}},
    "continent": {"code": "NA", "geoname_id": 6255149, "names": {"de": "Nordamerika", "en": "North America"}},
    "country": {"iso_code": "US", "geoname_id": 6252001, "names": {"de": "USA", "en": "United States"}},
    "location": {"latitude": 37.4223, "longitude": -122.085},
    "subdivisions": [{"names": {"en": "California"}}, {"names": {"en": "Santa Clara"}}],
}


# Queries


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("8.8.8.8", "8.8.8.8"),
        ("  8.8.8.8\n", "8.8.8.8"),
        ("2606:4700:0:0::1111", "2606:4700::1111"),
        ("2606:4700::ABCD", "2606:4700::abcd"),
        ("::ffff:8.8.8.8", "8.8.8.8"),
    ],
)
def test_every_way_to_write_an_address_is_the_same_query(given: str, canonical: str) -> None:
    assert normalise(given, "/ip").text == canonical


@pytest.mark.parametrize(
    "given",
    [
        "", " ", "localhost", "example.com", "https://8.8.8.8/", "8.8.8", "8.8.8.8.8", "8.8.8.256",
        "08.8.8.8", "8.8.8.8/32", "8.8.8.8:80", "134744072", "0x08080808", "fe80::1%eth0", "[::1]",
        "8.8.8.8\x00", "x" * 10_000, "①.1.1.1", "8.8.8.8,1.1.1.1",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_with_an_example_of_a_good_one(given: str) -> None:
    with pytest.raises(Invalid) as refused:
        normalise(given, "/queries/3")
    error = refused.value.errors[0]
    assert (error.pointer, error.code) == ("/queries/3", "invalid_ip")
    assert "8.8.8.8" in error.message


# The kind


def test_the_kind_declares_only_fields_of_its_answer() -> None:
    known = paths(IpAnswer)
    assert KIND.rules.keys() <= known
    assert KIND.echo in known
    for source in KIND.sources:
        assert source.spec.kind == "ip"
        assert source.spec.fields <= known
        assert source.spec.licence
        assert source.spec.attribution


def test_clocks_follow_from_the_zone() -> None:
    derived = derive({"timezone.name": "Asia/Kolkata"}, datetime(2026, 1, 1, tzinfo=UTC))
    assert derived == {
        "timezone.abbreviation": ("IST", "timezone.name"),
        "timezone.utc_offset": (5.5, "timezone.name"),
    }
    assert derive({}, datetime(2026, 1, 1, tzinfo=UTC)) == {}


def test_no_source_says_what_clocks_show() -> None:
    clocks = {"timezone.abbreviation", "timezone.utc_offset"}
    assert [source.spec.name for source in KIND.sources if clocks & source.fields] == []


# DB-IP


def test_both_forms_of_a_city_record_say_the_same() -> None:
    flat, nested = dbip.parse(FLAT), dbip.parse(NESTED)
    assert flat.keys() == nested.keys() == dbip.SOURCE.spec.fields
    for path in ("city", "region", "country", "country_code", "continent"):
        assert flat[f"location.{path}"] == nested[f"location.{path}"]
    assert flat["location.region"] == "California"
    assert flat["location.continent"] == "North America"
    assert flat["timezone.name"] == nested["timezone.name"] == "America/Los_Angeles"


def test_the_prime_meridian_is_a_place_too() -> None:
    record = {**FLAT, "country_code": "ES", "city": "Benassal", "latitude": 40.3769, "longitude": 0.0}
    assert dbip.parse(record)["timezone.name"] == "Europe/Madrid"


def test_coordinates_lose_the_noise_of_single_precision() -> None:
    record = {**FLAT, "latitude": 37.422000885009766, "longitude": -122.08499908447266}
    fields = dbip.parse(record)
    assert (fields["location.latitude"], fields["location.longitude"]) == (37.422, -122.085)


@pytest.mark.parametrize(
    "record",
    [{"country_code": ""}, {"country_code": "ZZ"}, {"country": {}}, {"continent": {"code": "EU"}}, {}],
)
def test_a_record_that_knows_little_is_read_all_the_same(record: dict[str, Any]) -> None:
    assert dbip.parse(record)["location.city"] is None


def test_both_ip_versions_are_found(tmp_path: Path) -> None:
    small.write_small_datasets(tmp_path)
    datasets = Datasets(tmp_path)
    for address, city, number in (
        ("8.8.8.8", "Mountain View", 15169),
        ("1.1.1.1", "Sydney", 13335),
        ("2606:4700::1111", "Montreal", 13335),
    ):
        query = normalise(address, "/ip")
        assert dbip.find(query, datasets)["location.city"] == city
        assert asn.find(query, datasets)["asn.asn"] == number


def test_the_publishers_one_file_serves_both_versions(tmp_path: Path) -> None:
    path = tmp_path / "both.mmdb"
    small.write_mmdb(path, 6, {"2606:4700::/44": NESTED, "::8.8.8.0/120": NESTED})
    cities = dbip.Cities({"both": path})
    for address in ("8.8.8.8", "2606:4700::1111"):
        record = cities.get(normalise(address, "/ip").value)
        assert record is not None
        assert dbip.parse(record)["location.city"] == "Mountain View"


def test_an_address_that_the_data_does_not_have_is_an_empty_answer(tmp_path: Path) -> None:
    small.write_small_datasets(tmp_path)
    for source in (dbip, asn):
        assert source.find(normalise("9.9.9.9", "/ip"), Datasets(tmp_path)) == {}


@pytest.mark.parametrize("source", [dbip, asn])
def test_without_data_a_source_is_skipped(source: Any, tmp_path: Path) -> None:
    with pytest.raises(SourceError) as skipped:
        source.find(normalise("8.8.8.8", "/ip"), Datasets(tmp_path))
    assert (skipped.value.status, skipped.value.detail) == ("skipped", "no_data")


@pytest.mark.parametrize("name", ["dbip-city-ipv4", "asn-table"])
def test_a_file_of_garbage_counts_as_no_data(name: str, tmp_path: Path) -> None:
    small.write_small_datasets(tmp_path)
    for path in (tmp_path / "datasets").glob(f"{name}-*"):
        path.write_bytes(b"garbage" * 100)
    source = dbip if name.startswith("dbip") else asn
    with pytest.raises(SourceError) as skipped:
        source.find(normalise("8.8.8.8", "/ip"), Datasets(tmp_path))
    assert skipped.value.detail == "no_data"


def test_data_that_is_replaced_during_queries_never_gives_a_mixture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("providers.datasets.installed.time.monotonic", lambda: clock[0])
    query, datasets = normalise("8.8.8.8", "/ip"), Datasets(tmp_path)
    for number in range(20):
        record = {**FLAT, "city": f"City {number}", "state1": f"State {number}"}
        small.write_cities(tmp_path, {"8.8.8.0/24": record})
        clock[0] += 3
        for _ in range(3):
            fields = dbip.find(query, datasets)
            assert fields["location.city"].split()[1] == fields["location.region"].split()[1] == str(number)


# The network table


@pytest.mark.parametrize(
    ("label", "number", "name"), [("15169 Google LLC", 15169, "Google LLC"), ("4294967295 ", 4294967295, "")]
)
def test_a_label_is_a_number_and_a_name(label: str, number: int, name: str) -> None:
    assert asn.parse(label) == {"asn.asn": number, "asn.name": name}


# Reserved addresses


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "100.64.1.1", "127.0.0.1", "169.254.169.254", "::1", "fd00::1"]
)
def test_a_special_address_is_reserved(address: str, tmp_path: Path) -> None:
    query = normalise(address, "/ip")
    assert reserved.find(query, Datasets(tmp_path)) == {"threat.usage_type": "Reserved"}


@pytest.mark.parametrize(
    ("address", "special"),
    [
        ("192.0.0.8", True),
        ("192.0.0.9", False),  # Port Control Protocol, anycast
        ("192.0.0.10", False),  # TURN, anycast
        ("192.0.0.11", True),
        ("192.0.0.170", True),
        ("192.31.196.1", False),  # AS112
        ("192.88.99.1", True),
        ("2001::1", True),  # Teredo
        ("2001:1::", True),
        ("2001:1::1", False),
        ("2001:1::4", True),
        ("2001:2::1", True),  # benchmarks
        ("2001:3::1", False),  # AMT
        ("2001:4:111:ffff::1", True),
        ("2001:4:112::1", False),  # AS112
        ("2001:4:113::1", True),
        ("2001:10::1", True),  # ORCHID
        ("2001:20::1", False),  # ORCHIDv2
        ("2001:db8::1", True),
        ("::ffff:192.0.0.9", False),
    ],
)
def test_what_is_reached_from_everywhere_is_not_reserved(address: str, special: bool, tmp_path: Path) -> None:
    query = normalise(address, "/ip")
    try:
        found = reserved.find(query, Datasets(tmp_path))
    except SourceError:
        found = {}
    assert bool(found) is special


def test_on_a_public_address_the_standards_have_no_say(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as skipped:
        reserved.find(normalise("8.8.8.8", "/ip"), Datasets(tmp_path))
    assert skipped.value.status == "skipped"


@pytest.mark.long
@pytest.mark.parametrize("bits", [32, 128])
def test_the_ends_of_every_network_of_16_bits_are_reserved_if_they_are_special(
    bits: int, tmp_path: Path
) -> None:
    size = 1 << bits - 16
    ends = (number * size + offset for number in range(1 << 16) for offset in (0, size - 1))
    for address in map(IPv4Address if bits == 32 else IPv6Address, ends):
        query = Query("ip", str(address), address)
        try:
            found = reserved.find(query, Datasets(tmp_path))
        except SourceError:
            found = {}
        assert bool(found) is forbidden_address(address), address


# Reverse DNS


async def ask(address: str, base_url: str) -> dict[str, Any]:
    async with httpx.AsyncClient() as client:
        context = Context(client, base_url, None, ptr.SOURCE.spec.timeout)
        return ptr.parse(await ptr.fetch(normalise(address, "/ip"), context))


@pytest.mark.parametrize(
    ("address", "question", "names", "hostname"),
    [
        ("8.8.8.8", "8.8.8.8.in-addr.arpa", ["dns.google."], "dns.google"),
        ("1.2.3.4", "4.3.2.1.in-addr.arpa", ["B.example.", "a.example."], "B.example"),
        ("1.2.3.4", "4.3.2.1.in-addr.arpa", ["z.example.", "a.example."], "a.example"),
    ],
)
async def test_an_address_has_its_owners_name(
    address: str, question: str, names: list[str], hostname: str, name_server: Serve
) -> None:
    server, url = await name_server({question: {"PTR": names}})
    assert await ask(address, url) == {"hostname": hostname.lower()}
    assert server.asked == [(question, "PTR")]


async def test_an_ipv6_address_has_a_name_too(name_server: Serve) -> None:
    question = "1.1.1.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.7.4.6.0.6.2.ip6.arpa"
    _, url = await name_server({question: {"PTR": ["one.example."]}})
    assert await ask("2606:4700::1111", url) == {"hostname": "one.example"}


@pytest.mark.parametrize("zone", [{}, {"8.8.8.8.in-addr.arpa": {}}])
async def test_an_address_without_a_name_is_an_empty_answer(zone: Zone, name_server: Serve) -> None:
    _, url = await name_server(zone)
    assert await ask("8.8.8.8", url) == {}


async def test_a_name_server_that_fails_is_an_error_and_not_an_empty_answer(name_server: Serve) -> None:
    _, url = await name_server({"8.8.8.8.in-addr.arpa": {"*": []}})
    with pytest.raises(SourceError) as failed:
        await ask("8.8.8.8", url)
    assert failed.value.status == "error"


async def test_a_silent_name_server_is_given_up_after_half_a_second(name_server: Serve) -> None:
    _, url = await name_server(silent=True)
    started = asyncio.get_running_loop().time()
    with pytest.raises(SourceError) as failed:
        await ask("8.8.8.8", url)
    assert failed.value.status == "timeout"
    assert asyncio.get_running_loop().time() - started < 1.5
