"""DB-IP City Lite: the location of an address, from a file on this machine.

The publisher's file holds both IP versions, in records like MaxMind's. The packages of ip-location-db hold
one file per version with flat records. Both are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import maxminddb

from outbound.guard import Address
from providers.datasets.installed import Datasets
from providers.ip.countries import with_names
from providers.ip.timezones import zone_of
from providers.sources.base import Evidence, Fields, LocalSource, Query, SourceError, Spec

DATASET = "dbip-city"

_FIELDS = frozenset(
    "location.city location.region location.country location.country_code location.postal_code "
    "location.continent location.longitude location.latitude location.accuracy_km timezone.name".split()
)


class Cities:
    """The open files of the dataset."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        """Open the files.

        Args:
            files: `both`, or `ipv4` and `ipv6` → path.

        Raises:
            ValueError: if a file is not an MMDB.
        """
        try:
            readers = {role: _open(path) for role, path in files.items()}
        except maxminddb.InvalidDatabaseError as error:
            raise ValueError(str(error)) from None
        self._v4 = readers.get("both") or readers["ipv4"]
        self._v6 = readers.get("both") or readers["ipv6"]

    def get(self, address: Address) -> Mapping[str, Any] | None:
        """Return the record of `address`, or None."""
        return (self._v4 if address.version == 4 else self._v6).get(address)


def _open(path: Path) -> Any:
    # The type stubs of the library are incomplete.
    return maxminddb.open_database(path, maxminddb.MODE_MMAP_EXT)  # pyright: ignore[reportUnknownMemberType]


def find(query: Query, datasets: Datasets) -> Fields:
    """Look the address up.

    Raises:
        SourceError: `skipped`, while there is no data.
    """
    cities = datasets.get(DATASET, Cities)
    if cities is None:
        raise SourceError("skipped", "no_data")
    record = cities.get(query.value)
    return parse(record) if record else {}


def parse(record: Mapping[str, Any]) -> Fields:
    """Read a record of either form."""
    place = with_names(_flat(record) if "country_code" in record else _read_nested(record))
    for path in ("location.latitude", "location.longitude"):
        if place[path] is not None:
            # Single precision: further digits are noise.
            place[path] = round(place[path], 4)
    if not place["timezone.name"]:
        names = ("country_code", "city", "longitude", "latitude")
        place["timezone.name"] = zone_of(*(place[f"location.{name}"] for name in names))
    return place


def _flat(record: Mapping[str, Any]) -> Fields:
    return {
        "location.city": record.get("city"),
        "location.region": record.get("state1"),
        "location.country_code": record.get("country_code"),
        "location.postal_code": record.get("postcode"),
        "location.latitude": record.get("latitude"),
        "location.longitude": record.get("longitude"),
        "location.accuracy_km": None,
        "timezone.name": record.get("timezone"),
    }


def _read_nested(record: Mapping[str, Any]) -> Fields:
    location = record.get("location", {})
    subdivisions: list[Mapping[str, Any]] = record.get("subdivisions", [])
    return {
        "location.city": _name(record.get("city", {})),
        "location.region": _name(subdivisions[0]) if subdivisions else None,
        "location.country": _name(record.get("country", {})),
        "location.country_code": record.get("country", {}).get("iso_code"),
        "location.continent": _name(record.get("continent", {})),
        "location.postal_code": record.get("postal", {}).get("code"),
        "location.latitude": location.get("latitude"),
        "location.longitude": location.get("longitude"),
        "location.accuracy_km": location.get("accuracy_radius"),
        "timezone.name": location.get("time_zone"),
    }


def _name(place: Mapping[str, Any]) -> str | None:
    return place.get("names", {}).get("en")


SOURCE = LocalSource(
    Spec(
        name="dbip",
        kind="ip",
        fields=_FIELDS,
        licence="CC BY 4.0",
        commercial="yes",
        terms="https://db-ip.com/db/lite.php",
        attribution="IP Geolocation by DB-IP, https://db-ip.com",
        evidence=Evidence("https://db-ip.com/db/format/ip-to-location-isp/mmdb.html", date(2026, 11, 22)),
        dataset=DATASET,
    ),
    find,
)
