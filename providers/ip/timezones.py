"""The time zone of a place, where it is certain; unknown otherwise.

Certain means: the country has one zone, or several that keep the same time all year; or the state lies
wholly in one zone; or the city is the one that its country's zone is named after. The zones come from the
IANA time zone database (public domain) in the `tzdata` package.
"""

from __future__ import annotations

import importlib.resources
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

# States and provinces that lie wholly in one zone, of the countries with most addresses in several.
_STATES: dict[str, dict[str, str]] = {
    "US": {
        "America/New_York": "Connecticut, Delaware, District of Columbia, Georgia, Maine, Maryland, "
        "Massachusetts, New Hampshire, New Jersey, New York, North Carolina, Ohio, Pennsylvania, "
        "Rhode Island, South Carolina, Vermont, Virginia, West Virginia",
        "America/Chicago": "Alabama, Arkansas, Illinois, Iowa, Louisiana, Minnesota, Mississippi, Missouri, "
        "Oklahoma, Wisconsin",
        "America/Denver": "Colorado, Montana, New Mexico, Utah, Wyoming",
        "America/Los_Angeles": "California, Washington",
        "Pacific/Honolulu": "Hawaii",
    },
    "AU": {
        "Australia/Sydney": "Australian Capital Territory",
        "Australia/Melbourne": "Victoria",
        "Australia/Brisbane": "Queensland",
        "Australia/Hobart": "Tasmania",
        "Australia/Darwin": "Northern Territory",
    },
    "CA": {
        "America/Edmonton": "Alberta",
        "America/Winnipeg": "Manitoba",
        "America/Moncton": "New Brunswick",
        "America/Halifax": "Nova Scotia, Prince Edward Island",
    },
}
_BY_STATE = {
    (country, state): zone
    for country, zones in _STATES.items()
    for zone, states in zones.items()
    for state in states.split(", ")
}


class LocalTime(NamedTuple):
    """What clocks in a zone show at a moment: the abbreviation (None where there is none) and UTC + hours."""

    abbreviation: str | None
    utc_offset: float


def zone_of(country_code: str | None, region: str | None, city: str | None) -> str | None:
    """The IANA name of the zone that the place keeps, or None where that is not certain."""
    if country_code is None:
        return None
    single, by_city = _zones().get(country_code, (None, {}))
    return single or _BY_STATE.get((country_code, region or "")) or by_city.get((city or "").casefold())


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
def _zones() -> dict[str, tuple[str | None, dict[str, str]]]:
    """Country code → its only zone if it has one, and its zones by the city that they are named after."""
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
            {name.rpartition("/")[2].replace("_", " ").casefold(): name for name in names},
        )
        for country, names in zones.items()
    }


def _offsets(zone: str, days: list[datetime]) -> tuple[timedelta | None, ...]:
    return tuple(day.astimezone(ZoneInfo(zone)).utcoffset() for day in days)
