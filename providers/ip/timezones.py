"""The time zone of a place: that of its country, if it has but one, or else of its coordinates.

The zones come from the IANA time zone database (public domain) in the `tzdata` package, and their borders,
within some hundred metres, from OpenStreetMap through timezone-boundary-builder (ODbL) in `tzfpy`.
"""

from __future__ import annotations

import importlib.resources
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo


class LocalTime(NamedTuple):
    """What clocks in a zone show at a moment: the abbreviation (None where there is none) and UTC + hours."""

    abbreviation: str | None
    utc_offset: float


def zone_of(
    country_code: str | None, city: str | None, longitude: float | None, latitude: float | None
) -> str | None:
    """The IANA name of the zone that the place keeps, or None where that is not certain.

    Without a city, coordinates are the middle of the country, which may have another zone than the place.

    Args:
        country_code: two letters.
        city: its name; only whether it is known counts.
        longitude: in degrees.
        latitude: in degrees.
    """
    if country_code is None:
        return None
    single, names = _zones().get(country_code, (None, frozenset()))
    if single or not city or longitude is None or latitude is None:
        return single
    # Loads the borders, some 35 MB: only once they are needed.
    from tzfpy import get_tz

    found = get_tz(longitude, latitude)
    # Not every code is in the table: Kosovo's is not. Zones at sea are no country's.
    return found if found in names or not (names or found.startswith("Etc/")) else None


def local_time(zone: str, moment: datetime) -> LocalTime | None:
    """What clocks in `zone` show at `moment` (aware); None for a name that is no zone."""
    return _local_time(zone, moment.replace(second=0, microsecond=0))


@lru_cache(1024)
def _local_time(zone: str, moment: datetime) -> LocalTime | None:
    try:
        local = moment.astimezone(ZoneInfo(zone))
    except (KeyError, ValueError, OSError):  # ZoneInfo's ways to say that there is none
        return None
    offset, name = local.utcoffset(), local.tzname()
    if offset is None:
        return None
    # Zones without an abbreviation of their own are named by their offset (+03).
    return LocalTime(name if name and name.isalpha() else None, offset.total_seconds() / 3600)


@cache
def _zones() -> dict[str, tuple[str | None, frozenset[str]]]:
    """Country code → its zone if all of the country keeps the same time, and its zones."""
    zones: defaultdict[str, list[str]] = defaultdict(list)
    table = importlib.resources.files("tzdata.zoneinfo") / "zone.tab"
    for line in table.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            country, _, zone, *_ = line.split("\t")
            zones[country].append(zone)
    year = datetime.now(UTC).year
    days = [datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=7 * week) for week in range(104)]
    return {
        country: (
            names[0] if len({_offsets(name, days) for name in names}) == 1 else None,
            frozenset(names),
        )
        for country, names in zones.items()
    }


def _offsets(zone: str, days: list[datetime]) -> tuple[timedelta | None, ...]:
    return tuple(day.astimezone(ZoneInfo(zone)).utcoffset() for day in days)
