"""The time zone of a place, and what clocks show in it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from providers.ip.timezones import (
    _current,  # pyright: ignore[reportPrivateUsage]
    _former,  # pyright: ignore[reportPrivateUsage]
    _zones,  # pyright: ignore[reportPrivateUsage]
    current_zone,
    local_time,
    zone_of,
)


@pytest.mark.parametrize(
    ("country", "city", "longitude", "latitude", "zone"),
    [
        ("FR", None, None, None, "Europe/Paris"),
        ("IN", "Bengaluru", 77.5946, 12.9716, "Asia/Kolkata"),
        ("DE", "Konstanz", 9.1829, 47.6628, "Europe/Berlin"),  # beside Switzerland
        ("US", "Mountain View", -122.085, 37.422, "America/Los_Angeles"),
        ("US", "Dallas", -96.797, 32.7767, "America/Chicago"),
        ("US", "Pensacola", -87.2169, 30.4213, "America/Chicago"),
        ("US", "Indianapolis", -86.1581, 39.7684, "America/Indiana/Indianapolis"),
        ("AU", "Broken Hill", 141.4678, -31.9505, "Australia/Broken_Hill"),
        ("CA", "Kenora", -94.4894, 49.767, "America/Winnipeg"),
        ("BR", "Curitiba", -49.2733, -25.4284, "America/Sao_Paulo"),
        ("US", None, -97.822, 37.751, None),  # the middle of the country, and of no city
        ("US", "Dallas", None, None, None),
        ("US", "Nowhere", -30.0, 30.0, None),  # at sea
        ("US", "Toronto", -79.3832, 43.6532, None),  # another country's
        ("XK", "Pristina", 21.1655, 42.6629, "Europe/Belgrade"),
        ("XX", "Nowhere", -30.0, 30.0, None),
        (None, "Chicago", -87.6298, 41.8781, None),
    ],
)
def test_a_place_has_the_zone_of_its_country_or_of_its_coordinates(
    country: str | None, city: str | None, longitude: float | None, latitude: float | None, zone: str | None
) -> None:
    assert zone_of(country, city, longitude, latitude) == zone


def test_every_zone_that_can_be_given_has_clocks() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert all(local_time(zone, moment) for _, zones in _zones().values() for zone in zones)


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


@pytest.mark.parametrize(
    ("former", "now"),
    [
        ("Asia/Calcutta", "Asia/Kolkata"),
        ("Asia/Katmandu", "Asia/Kathmandu"),
        ("Asia/Rangoon", "Asia/Yangon"),
        ("Asia/Saigon", "Asia/Ho_Chi_Minh"),
        ("Europe/Kiev", "Europe/Kyiv"),
        ("America/Buenos_Aires", "America/Argentina/Buenos_Aires"),
        ("America/Godthab", "America/Nuuk"),
        ("Atlantic/Faeroe", "Atlantic/Faroe"),
        ("US/Pacific", "America/Los_Angeles"),
        ("Africa/Asmera", "Africa/Asmara"),
        ("Pacific/Ponape", "Pacific/Pohnpei"),
        ("Pacific/Truk", "Pacific/Chuuk"),
        ("Asia/Kolkata", "Asia/Kolkata"),
        ("Europe/Stockholm", "Europe/Stockholm"),
        ("UTC", "UTC"),
        ("CET", "CET"),
        ("Nowhere/City", "Nowhere/City"),
    ],
)
def test_a_former_name_of_a_zone_gives_way_to_that_of_now(former: str, now: str) -> None:
    assert current_zone(former) == now


def test_a_zone_shows_the_same_under_both_of_its_names() -> None:
    assert {*_former().values()} <= _current()
    for month in (1, 7):
        moment = datetime(2026, month, 15, tzinfo=UTC)
        for former, now in _former().items():
            assert local_time(former, moment) == local_time(now, moment), former


@pytest.mark.parametrize("zone", ["", "Nowhere/City", "../../etc/passwd", "/etc/passwd", "America/New York"])
def test_a_name_that_is_no_zone_has_no_clocks(zone: str) -> None:
    assert local_time(zone, datetime(2026, 1, 1, tzinfo=UTC)) is None
