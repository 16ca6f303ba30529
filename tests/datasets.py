"""Small lookup data in the format of the real one, for tests that need a few known addresses."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import orjson
from mmdb_writer import MMDBWriter
from netaddr import IPSet

from providers.datasets import installed, ranges
from providers.datasets.installed import Provenance
from tests.darkweb.victims import install_victims, victim

# The records have the form of the published files.
CITIES: dict[str, dict[str, Any]] = {
    "8.8.8.0/24": {
        "city": "Mountain View",
        "country_code": "US",
        "latitude": 37.422,
        "longitude": -122.085,
        "postcode": "",
        "state1": "California",
        "state2": "",
        "timezone": "",
    },
    "1.1.1.0/24": {
        "city": "Sydney",
        "country_code": "AU",
        "latitude": -33.8688,
        "longitude": 151.209,
        "postcode": "",
        "state1": "New South Wales",
        "state2": "",
        "timezone": "",
    },
    "193.0.6.0/24": {
        "city": "Amsterdam",
        "country_code": "NL",
        "latitude": 52.3676,
        "longitude": 4.9041,
        "postcode": "",
        "state1": "North Holland",
        "state2": "",
        "timezone": "",
    },
    "2606:4700::/44": {
        "city": "Montreal",
        "country_code": "CA",
        "latitude": 45.5019,
        "longitude": -73.5674,
        "postcode": "",
        "state1": "Quebec",
        "state2": "",
        "timezone": "",
    },
}
NETWORKS: list[tuple[str, str, str]] = [
    ("8.8.8.0", "8.8.8.255", "15169 Google LLC"),
    ("1.1.1.0", "1.1.1.255", "13335 Cloudflare, Inc."),
    ("193.0.6.0", "193.0.6.255", "3333 RIPE NCC"),
    ("2606:4700::", "2606:4700:f:ffff:ffff:ffff:ffff:ffff", "13335 Cloudflare, Inc."),
]


def write_mmdb(path: Path, version: int, records: Mapping[str, dict[str, Any]]) -> None:
    """Write an MMDB with the records of the networks of this IP version."""
    writer = MMDBWriter(version, "DBIP-City-Lite", languages=["en"], float_type="f32")
    for network, record in records.items():
        if (":" in network) == (version == 6):
            writer.insert_network(IPSet([network]), record)
    writer.to_db_file(str(path))


def write_cities(data: Path, records: Mapping[str, dict[str, Any]], *, version: str = "small") -> None:
    """Install `records` as the city data of the folder `data`."""
    folder = installed.folder(data)
    folder.mkdir(parents=True, exist_ok=True)
    files = {role: folder / f"{role}.new" for role in ("ipv4", "ipv6")}
    write_mmdb(files["ipv4"], 4, records)
    write_mmdb(files["ipv6"], 6, records)
    installed.install(
        data, "dbip-city", files, Provenance(source="db-ip.com", version=version, licence="CC BY 4.0")
    )


def write_networks(data: Path, rows: list[tuple[str, str, str]], *, version: str = "small") -> None:
    """Install `rows` (first address, last address, number and name) as the network data of `data`."""
    folder = installed.folder(data)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "table.new"
    ranges.write(path, [ranges.Range(packed(first), packed(last), label) for first, last, label in rows])
    installed.install(
        data, "asn", {"table": path}, Provenance(source="iptoasn.com", version=version, licence="PDDL 1.0")
    )


# One network for each table of the lists. None holds an address of the tables above.
LISTS: dict[str, dict[str, list[tuple[str, str]]]] = {
    "tor": {"exits": [("185.220.101.1/32", "exit")]},
    "x4bnet": {"vpn": [("185.220.101.0/24", "vpn")], "datacenter": [("103.21.244.0/22", "datacenter")]},
    "applerelay": {"egress": [("172.224.224.0/27", "relay"), ("2a02:26f7:b000::/45", "relay")]},
    "cloud": {"ranges": [("103.21.244.0/22", "cloudflare"), ("2600:1f00::/24", "aws")]},
    "spamhaus": {"drop": [("1.10.16.0/20", "drop")]},
}


def write_lists(data: Path) -> None:
    """Install the lists of `LISTS`."""
    folder = installed.folder(data)
    folder.mkdir(parents=True, exist_ok=True)
    for name, tables in LISTS.items():
        files: dict[str, Path] = {}
        for role, rows in tables.items():
            files[role] = folder / f"{name}-{role}.new"
            networks = [(ip_network(network), label) for network, label in rows]
            ranges.write(
                files[role], [ranges.Range(n[0].packed, n[-1].packed, label) for n, label in networks]
            )
        installed.install(
            data, name, files, Provenance(source=name, version="2026-11-21", licence="public domain")
        )


def write_titles(data: Path) -> None:
    """Install a catalogue of breaches with one in it."""
    path = installed.folder(data) / "titles.new"
    path.write_bytes(orjson.dumps({"example": "Example"}))
    installed.install(
        data,
        "breaches",
        {"titles": path},
        Provenance(source="breaches", version="2026-11-21", licence="CC BY 4.0"),
    )


def packed(address: str) -> bytes:
    """The address as 4 or 16 bytes."""
    return ip_address(address).packed


def write_small_datasets(data: Path) -> None:
    """Install a few known addresses, 8.8.8.8, 1.1.1.1, 193.0.6.139 and 2606:4700::1111, and small lists."""
    write_cities(data, CITIES)
    write_networks(data, NETWORKS)
    write_lists(data)
    write_titles(data)
    install_victims(data, victim())
