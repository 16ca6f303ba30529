"""Sources that are lists: how the published files are read, fetched, and what being on one means."""

from __future__ import annotations

import json
import zipfile
from collections.abc import AsyncGenerator
from ipaddress import IPv4Network, ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from providers.dataset_refresh import FetchResult, fetch
from providers.datasets import installed
from providers.datasets.downloads import Dataset
from providers.datasets.lists import merge_networks
from providers.ip import applerelay, cloud, spamhaus, tor, x4bnet
from providers.ip.kind import normalise
from providers.sources.base import SourceError
from settings import Settings
from tests.datasets import write_lists

MODULES: dict[str, Any] = {
    "tor": tor,
    "x4bnet": x4bnet,
    "applerelay": applerelay,
    "cloud": cloud,
    "spamhaus": spamhaus,
}
CLOSED = "http://127.0.0.1:9"  # nobody listens there


def many(second: int, *, step: int = 1, size: str = "/32") -> list[str]:
    return [f"11.{second}.{n}.0{size}" for n in range(0, 250, step)]


# Files as their publishers have them, by path.
FILES: dict[str, str] = {
    "/torbulkexitlist": "\n".join(["185.220.101.1", *(n.removesuffix("/32") for n in many(1))]) + "\n",
    "/X4BNet/lists_vpn/main/output/vpn/ipv4.txt": "\n".join(["185.220.101.0/24", *many(2, size="/24")]),
    "/X4BNet/lists_vpn/main/output/vpn/ipv6.txt": "2001:678:6d4::/48\n",
    "/X4BNet/lists_vpn/main/output/datacenter/ipv4.txt": "# comment\n\n" + "\n".join(many(3, size="/24")),
    "/X4BNet/lists_vpn/main/output/datacenter/ipv6.txt": "2001:67c:400::/48",
    "/egress-ip-ranges.csv": "\n".join(
        ["172.224.224.0/27,GB,GB-EN,London,", "2a02:26f7:b000:4000::/64,US,US-CA,Los Angeles,"]
        + [f"{network},US,US-NY,New York," for network in many(4)]
    ),
    "/ip-ranges.json": json.dumps(
        {
            "syncToken": "1763000000",
            "createDate": "2026-11-13-02-13-20",
            "prefixes": [
                {
                    "ip_prefix": network,
                    "region": "eu-west-1",
                    "service": "EC2",
                    "network_border_group": "eu-west-1",
                }
                for network in ["3.4.12.4/32", *many(5, step=10)]
            ],
            "ipv6_prefixes": [
                {
                    "ipv6_prefix": "2600:1f00::/24",
                    "region": "GLOBAL",
                    "service": "AMAZON",
                    "network_border_group": "GLOBAL",
                }
            ],
        }
    ),
    "/ipranges/cloud.json": json.dumps(
        {
            "syncToken": "1763000000000",
            "creationTime": "2026-11-13T02:13:20",
            "prefixes": [
                {"ipv4Prefix": network, "service": "Google Cloud", "scope": "europe-west1"}
                for network in ["34.140.0.0/16", *many(6, step=10)]
            ]
            + [{"ipv6Prefix": "2600:1900:4010::/44", "service": "Google Cloud", "scope": "europe-west1"}],
        }
    ),
    "/client/v4/ips": json.dumps(
        {
            "result": {
                "ipv4_cidrs": "173.245.48.0/20 103.21.244.0/22 103.22.200.0/22 141.101.64.0/18".split(),
                "ipv6_cidrs": ["2400:cb00::/32", "2606:4700::/32"],
                "etag": "38f79d050aa027e3be3865e495dcc9bc",
            },
            "success": True,
            "errors": [],
            "messages": [],
        }
    ),
    "/public-ip-list": json.dumps(
        {
            "addresses": "23.235.32.0/20 43.249.72.0/22 103.244.50.0/24 151.101.0.0/16".split(),
            "ipv6_addresses": ["2a04:4e40::/32", "2a04:4e42::/32"],
        }
    ),
    "/meta": json.dumps(
        {
            "verifiable_password_authentication": False,
            "hooks": ["192.30.252.0/22", "185.199.108.0/22"],
            "web": ["192.30.252.0/22", "140.82.112.0/20"],
            "api": ["143.55.64.0/20"],
            "pages": ["192.30.252.153/32"],
            "actions": ["4.148.0.0/16"],
        }
    ),
    "/drop/drop_v4.json": "\n".join(
        json.dumps({"cidr": network, "sblid": "SBL256894", "rir": "apnic"})
        for network in ["1.10.16.0/20", *many(7, size="/24")]
    )
    + '\n{"type":"metadata","timestamp":1763000000,"size":251,"records":251,"copyright":"(c) 2026 The '
    'Spamhaus Project SLU","terms":"https://www.spamhaus.org/drop/terms/"}\n',
    "/drop/drop_v6.json": '{"cidr":"2001:678:738::/48","sblid":"SBL635837","rir":"ripencc"}\n'
    '{"type":"metadata","timestamp":1763000000,"size":1,"records":1}\n',
}


class Publishers:
    """All publishers on one port of loopback; what is not in `files` is 404."""

    def __init__(self) -> None:
        self.files = dict(FILES)
        self.requests: list[str] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request.path)
        body = self.files.get(request.path)
        return web.Response(status=404) if body is None else web.Response(text=body)


@pytest.fixture
async def publishers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncGenerator[Publishers]:
    there = Publishers()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", there.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    there.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield there
    await runner.cleanup()


async def run(data: Path, url: str, *, if_missing: bool = False) -> dict[str, FetchResult]:
    datasets: dict[str, Dataset] = {name: module.DATASET for name, module in MODULES.items()}
    providers = {name: {"base_url": url} for name in datasets}
    settings = Settings.model_validate({"data": data, "providers": providers})
    results = await fetch(settings, if_missing=if_missing, report=lambda _: None, datasets=datasets)
    return {result.name: result for result in results}


def found(data: Path, source: str, address: str) -> dict[str, Any]:
    return MODULES[source].SOURCE.find(normalise(address, "/ip"), installed.Datasets(data))


CLOUD = {"company.type": "hosting", "security.is_hosting": True}


@pytest.mark.parametrize(
    ("source", "address", "fields"),
    [
        ("tor", "185.220.101.1", {"security.is_tor": True, "threat.is_tor": True}),
        ("x4bnet", "185.220.101.1", {"security.is_vpn": True}),
        ("x4bnet", "11.3.9.200", {"security.is_hosting": True}),
        ("x4bnet", "2001:678:6d4::1", {"security.is_vpn": True}),
        ("x4bnet", "2001:67c:400::1", {"security.is_hosting": True}),
        ("applerelay", "172.224.224.31", {"security.is_relay": True}),
        ("applerelay", "2a02:26f7:b000:4000::9", {"security.is_relay": True}),
        ("cloud", "3.4.12.4", {"company.name": "Amazon Web Services", "company.domain": "aws.amazon.com"}),
        (
            "cloud",
            "2600:1f00::1",
            {"company.name": "Amazon Web Services", "company.domain": "aws.amazon.com"},
        ),
        ("cloud", "34.140.1.1", {"company.name": "Google Cloud", "company.domain": "cloud.google.com"}),
        ("cloud", "2606:4700::1", {"company.name": "Cloudflare", "company.domain": "cloudflare.com"}),
        ("cloud", "151.101.1.1", {"company.name": "Fastly", "company.domain": "fastly.com"}),
        ("cloud", "140.82.112.3", {"company.name": "GitHub", "company.domain": "github.com"}),
        ("spamhaus", "1.10.31.255", {"security.is_abuse": True}),
        ("spamhaus", "2001:678:738::1", {"security.is_abuse": True}),
    ],
)
async def test_an_address_on_a_published_list_is_what_the_list_says(
    source: str, address: str, fields: dict[str, Any], publishers: Publishers, tmp_path: Path
) -> None:
    results = await run(tmp_path / "data", publishers.url)
    assert {result.status for result in results.values()} == {"installed"}
    assert found(tmp_path / "data", source, address) == fields | (CLOUD if source == "cloud" else {})


@pytest.mark.parametrize("source", MODULES)
def test_not_being_on_a_list_is_unknown_and_not_false(source: str, tmp_path: Path) -> None:
    write_lists(tmp_path)
    for address in ("9.9.9.9", "2620:fe::fe"):
        assert found(tmp_path, source, address) == {}


def test_addresses_in_a_cloud_for_other_peoples_work_are_not_githubs(tmp_path: Path) -> None:
    files = {name: FILES[url].encode() for name, url in zip(
        ("aws", "gcp", "cloudflare", "fastly", "github"),
        ("/ip-ranges.json", "/ipranges/cloud.json", "/client/v4/ips", "/public-ip-list", "/meta"),
        strict=True,
    )}  # fmt: skip
    address = ip_address("4.148.1.1").packed
    assert not any(row.start <= address <= row.end for row in cloud.tables(files)["ranges"])


@pytest.mark.parametrize("source", MODULES)
def test_without_data_the_source_is_skipped(source: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError) as skipped:
        found(tmp_path, source, "8.8.8.8")
    assert (skipped.value.status, skipped.value.detail) == ("skipped", "no_data")


async def test_a_list_that_cannot_be_had_is_no_failure_and_harms_no_other(
    publishers: Publishers, tmp_path: Path
) -> None:
    del publishers.files["/drop/drop_v6.json"]
    publishers.files["/egress-ip-ranges.csv"] = "<html>Please log in to this network</html>"
    publishers.files["/torbulkexitlist"] = "185.220.101.1\n"
    publishers.files["/meta"] = '{"message": "Not Found"}'
    results = await run(tmp_path / "data", publishers.url)
    assert {name: result.status for name, result in results.items()} == {
        "tor": "unavailable", "x4bnet": "installed", "applerelay": "unavailable", "cloud": "unavailable",
        "spamhaus": "unavailable",
    }  # fmt: skip
    assert "answers 404" in results["spamhaus"].detail
    assert "only 1 networks" in results["tor"].detail
    assert found(tmp_path / "data", "x4bnet", "185.220.101.1") == {"security.is_vpn": True}


async def test_what_was_there_stays_when_the_publishers_are_away(
    publishers: Publishers, tmp_path: Path
) -> None:
    write_lists(tmp_path)
    results = await run(tmp_path, CLOSED)
    assert {result.status for result in results.values()} == {"unavailable"}
    assert {result.version for result in results.values()} == {"2026-11-21"}
    assert found(tmp_path, "tor", "185.220.101.1")["security.is_tor"]


async def test_no_publisher_is_asked_twice_a_day(publishers: Publishers, tmp_path: Path) -> None:
    await run(tmp_path / "data", publishers.url)
    publishers.requests.clear()
    for data, if_missing in (("data", False), ("data", True), ("other", True)):
        results = await run(tmp_path / data, publishers.url, if_missing=if_missing)
        assert {result.status for result in results.values()} <= {"present", "installed"}
    assert publishers.requests == []


NETWORKS = st.lists(
    st.tuples(st.integers(0, 63), st.integers(26, 32)).map(lambda n: f"10.0.0.{n[0]}/{n[1]}"), max_size=12
)


@given(NETWORKS)
def test_merged_ranges_hold_exactly_the_addresses_of_the_networks(networks: list[str]) -> None:
    rows = merge_networks(networks, "label", fewest=0)
    parsed = [ip_network(text, strict=False) for text in networks]
    for address in IPv4Network("10.0.0.0/25"):
        holding = [row for row in rows if row.start <= address.packed <= row.end]
        assert len(holding) == any(address in network for network in parsed)


def test_a_damaged_download_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tor.zip").write_bytes(b"PK\x03\x04 cut short")
    with pytest.raises(ValueError, match="damaged"):
        tor.DATASET.build(tmp_path / "tor.zip", tmp_path)
    with zipfile.ZipFile(tmp_path / "tor.zip", "w") as archive:
        archive.writestr("exits", FILES["/torbulkexitlist"])
    assert tor.DATASET.build(tmp_path / "tor.zip", tmp_path).keys() == {"exits"}
