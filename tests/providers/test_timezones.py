"""The time zone of a place is given only where it is certain."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from providers.ip.countries import COUNTRIES
from providers.ip.timezones import _BY_STATE, _zones, local_time, zone_of  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("country", "region", "city", "zone"),
    [
        ("FR", None, None, "Europe/Paris"),
        ("IN", "Karnataka", "Bengaluru", "Asia/Kolkata"),
        ("DE", "Hesse", "Frankfurt am Main", "Europe/Berlin"),
        ("US", "California", "Mountain View", "America/Los_Angeles"),
        ("US", "Hawaii", "Honolulu", "Pacific/Honolulu"),
        ("US", "Texas", "Dallas", None),
        ("US", None, None, None),
        ("US", "Illinois", "Chicago", "America/Chicago"),
        ("AU", "New South Wales", "Sydney", "Australia/Sydney"),
        ("AU", "New South Wales", "Broken Hill", "Australia/Broken_Hill"),
        ("AU", "New South Wales", "Orange", None),
        ("CA", "Ontario", "Toronto", "America/Toronto"),
        ("CA", "Ontario", "Kenora", None),
        ("RU", "Moscow", "moscow", "Europe/Moscow"),
        ("BR", "Parana", "Curitiba", None),
        ("XX", None, None, None),
        (None, "California", "Chicago", None),
    ],
)
def test_a_place_has_the_zone_that_is_certain(
    country: str | None, region: str | None, city: str | None, zone: str | None
) -> None:
    assert zone_of(country, region, city) == zone


def test_every_zone_that_can_be_given_exists() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    zones = {zone for single, _ in _zones().values() if (zone := single)} | set(_BY_STATE.values())
    assert all(local_time(zone, moment) for zone in zones)


@pytest.mark.parametrize(
    ("zone", "month", "expected"),
    [
        ("America/Los_Angeles", 1, ("PST", -8.0)),
        ("America/Los_Angeles", 7, ("PDT", -7.0)),
        ("Asia/Kolkata", 7, ("IST", 5.5)),
        ("Asia/Kathmandu", 7, (None, 5.75)),
        ("Asia/Dubai", 1, (None, 4.0)),
        ("UTC", 1, ("UTC", 0.0)),
    ],
)
def test_clocks_show_the_abbreviation_and_the_hours_from_utc(
    zone: str, month: int, expected: tuple[str | None, float]
) -> None:
    assert local_time(zone, datetime(2026, month, 15, tzinfo=UTC)) == expected


@pytest.mark.parametrize("zone", ["", "Nowhere/City", "../../etc/passwd", "/etc/passwd", "America/New York"])
def test_a_name_that_is_no_zone_has_no_clocks(zone: str) -> None:
    assert local_time(zone, datetime(2026, 1, 1, tzinfo=UTC)) is None


def test_countries_are_two_letters_a_name_and_one_of_seven_continents() -> None:
    assert COUNTRIES["US"] == ("United States", "North America")
    assert COUNTRIES["RU"] == ("Russia", "Europe")
    assert len(COUNTRIES) > 245
    assert all(len(code) == 2 and code.isupper() and name for code, (name, _) in COUNTRIES.items())
    assert {continent for _, continent in COUNTRIES.values()} == {
        "Africa", "Antarctica", "Asia", "Europe", "North America", "Oceania", "South America",
    }  # fmt: skip
