"""The time zone of a place: that of its country, if it has only one, or else of its coordinates.

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

# Former names whose links lead to another zone with the same clock time; see the file `backward` of the
# database.
_RENAMED = {
    "Africa/Asmera": "Africa/Asmara",
    "Africa/Timbuktu": "Africa/Bamako",
    "America/Coral_Harbour": "America/Atikokan",
    "America/Virgin": "America/St_Thomas",
    "Antarctica/South_Pole": "Antarctica/McMurdo",
    "Atlantic/Jan_Mayen": "Arctic/Longyearbyen",
    "Iceland": "Atlantic/Reykjavik",
    "Pacific/Ponape": "Pacific/Pohnpei",
    "Pacific/Truk": "Pacific/Chuuk",
    "Pacific/Yap": "Pacific/Chuuk",
}
# Names for a clock time, not for a place.
_ABBREVIATIONS = frozenset("CET CST6CDT EET EST EST5EDT HST MET MST MST7MDT PST8PDT WET".split())


class LocalTime(NamedTuple):
    """The clock time of a zone at a moment: its abbreviation (None without one) and the hours from UTC."""

    abbreviation: str | None
    utc_offset: float


def zone_of(
    country_code: str | None, city: str | None, longitude: float | None, latitude: float | None
) -> str | None:
    """Return the IANA name of the time zone of the place, or None if it is not certain.

    Without a city, the coordinates are those of the middle of the country, which may be in another zone.

    Args:
        country_code: two letters.
        city: its name; only its presence matters.
        longitude: in degrees.
        latitude: in degrees.
    """
    if country_code is None:
        return None
    single, names = _zones().get(country_code, (None, frozenset()))
    if single or not city or longitude is None or latitude is None:
        return single
    # Loads the borders, some 35 MB, so it is imported only when needed.
    from tzfpy import get_tz

    found = current_zone(get_tz(longitude, latitude))
    # Some codes, such as Kosovo's, are not in the table. Zones at sea belong to no country.
    return found if found in names or not (names or found.startswith("Etc/")) else None


def current_zone(name: str) -> str:
    """Return the current name of a zone: `Asia/Kolkata` for `Asia/Calcutta`. Unknown names stay."""
    return name if name in _current() else _former().get(name, name)


def local_time(zone: str, moment: datetime) -> LocalTime | None:
    """Return the clock time of `zone` at `moment` (aware); None if the name is no zone."""
    return _local_time(zone, moment.replace(second=0, microsecond=0))


@lru_cache(1024)
def _local_time(zone: str, moment: datetime) -> LocalTime | None:
    try:
        local = moment.astimezone(ZoneInfo(zone))
    except (KeyError, ValueError, OSError):  # ZoneInfo raises these for a missing zone
        return None
    offset, name = local.utcoffset(), local.tzname()
    if offset is None:
        return None
    # Zones without an abbreviation of their own are named by their offset (+03).
    return LocalTime(name if name and name.isalpha() else None, offset.total_seconds() / 3600)


@cache
def _current() -> frozenset[str]:
    """Return the zones that the table of countries lists."""
    return frozenset(name for _, names in _zones().values() for name in names)


@cache
def _former() -> dict[str, str]:
    """Return former name of a zone → its current name, by the links of the database and a few exceptions."""
    data = importlib.resources.files("tzdata.zoneinfo") / "tzdata.zi"
    links = [line.split()[1:] for line in data.read_text(encoding="utf-8").splitlines() if line[:2] == "L "]
    renamed = {name: target for target, name in links if target in _current() and name not in _ABBREVIATIONS}
    return renamed | _RENAMED


@cache
def _zones() -> dict[str, tuple[str | None, frozenset[str]]]:
    """Return country code → its zone if the whole country has the same time, and all its zones."""
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
