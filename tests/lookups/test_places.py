"""Where an address is: nowhere in particular if it is in many places, and how sure that is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from providers.ip import dbip
from providers.ip.distance import kilometres
from providers.ip.kind import KIND
from providers.lookup.composition import compose
from providers.lookup.result import LookupResult, SourceResult
from providers.sources.wellknown import table

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
BERLIN = {
    "location.city": "Berlin", "location.region": "Berlin", "location.country": "Germany",
    "location.country_code": "DE", "location.latitude": 52.52, "location.longitude": 13.405,
    "timezone.name": "Europe/Berlin",
}  # fmt: skip
MUNICH = {"location.city": "Munich", "location.latitude": 48.137, "location.longitude": 11.575}
OFF = SourceResult("skipped", detail="disabled")


def of(address: str = "193.0.6.139", **said: dict[str, Any]) -> LookupResult:
    """The answer where these sources say so; the data on this machine that needs no fetching is asked."""
    query = KIND.normalise(address, "")
    told = {name: SourceResult("ok", fields) for name, fields in said.items()}
    wellknown = next(source for source in KIND.sources if source.spec.name == "wellknown")
    known = wellknown.find(query, None)  # pyright: ignore
    told["wellknown"] = SourceResult("ok" if known else "empty", {path: v for path, v in known.items() if v})
    outcomes = [(source, told.get(source.spec.name, OFF)) for source in KIND.sources]
    return compose(KIND, query, outcomes, NOW)


@pytest.mark.parametrize("address", ["1.1.1.1", "8.8.8.8", "9.9.9.9", "193.0.14.129", "2606:4700:4700::1111"])
def test_an_anycast_address_has_a_country_but_no_city(address: str) -> None:
    result = of(address, dbip=BERLIN)
    place = result.data["location"]
    assert place == dict.fromkeys(place) | {"country": "Germany", "country_code": "DE", "is_anycast": True}
    assert set(result.data["timezone"].values()) == {None}
    assert result.sources["location.is_anycast"] == ["wellknown"]
    assert not {"location.city", "timezone.name"} & result.sources.keys()


@pytest.mark.parametrize("address", [str(one) for one, anycast in table().addresses.items() if anycast])
def test_no_anycast_address_of_the_table_is_in_a_city(address: str) -> None:
    result = of(address, abstractip=MUNICH, dbip=BERLIN | {"location.accuracy_km": 20.0})
    place = result.data["location"]
    assert place["is_anycast"] is True
    assert [place[name] for name in ("city", "region", "postal_code", "latitude", "longitude")] == [None] * 5


def test_of_another_address_it_is_not_known_whether_it_is_anycast() -> None:
    place = of(dbip=BERLIN).data["location"]
    assert (place["city"], place["is_anycast"], place["accuracy_km"]) == ("Berlin", None, None)


def test_the_accuracy_is_what_the_source_of_the_place_says() -> None:
    result = of(abstractip=MUNICH, dbip=BERLIN | {"location.accuracy_km": 20.0})
    assert result.data["location"]["accuracy_km"] == 504.0
    assert result.sources["location.accuracy_km"] == ["computed"]
    assert of(dbip=BERLIN | {"location.accuracy_km": 20.0}).data["location"]["accuracy_km"] == 20.0


def test_the_radius_of_a_record_is_read() -> None:
    record = {"location": {"latitude": 52.5, "longitude": 13.4, "accuracy_radius": 20}}
    assert dbip.parse(record)["location.accuracy_km"] == 20


@pytest.mark.parametrize(
    ("one", "other", "km"),
    [
        ((52.52, 13.405), (52.52, 13.405), 0),
        ((52.52, 13.405), (48.137, 11.575), 504),
        ((0.0, 0.0), (0.0, 180.0), 20015),
        ((-33.8688, 151.209), (45.5019, -73.5674), 16000),
    ],
)
def test_distances_follow_the_ground(one: tuple[float, float], other: tuple[float, float], km: int) -> None:
    assert kilometres(one, other) == pytest.approx(km, abs=30)
