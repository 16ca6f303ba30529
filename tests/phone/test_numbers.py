"""What counts as a phone number, and what the numbering plans know of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import Invalid
from providers.datasets.installed import Datasets
from providers.phone.kind import KIND, cost, normalise
from providers.phone.number import number
from providers.phone.numbering import find


def known(text: str) -> dict[str, Any]:
    return {name: value for name, value in find(normalise(text, "/phone"), Datasets(Path())).items() if value}


@pytest.mark.parametrize(
    ("text", "country", "e164", "valid"),
    [
        ("+14155552671", None, "+14155552671", True),
        (" +1 (415) 555-2671 ", None, "+14155552671", True),
        ("tel:+14155552671", None, "+14155552671", True),
        ("+1 415 555 2671 ext. 12", None, "+14155552671", True),
        ("415 555 2671", "us", "+14155552671", True),
        ("07400 123456", "GB", "+447400123456", True),
        ("+447400123456", "US", "+447400123456", True),
        ("+1 000 000 0000", None, "+10000000000", False),
        ("123", "US", "+1123", False),
        ("0049 30 123456", "US", "+4930123456", True),
        ("004930123456", "us", "+4930123456", True),
        ("00 (49) 30 123456", "US", "+4930123456", True),
        ("0049 30 123456", "JP", "+4930123456", True),
        ("0049 30 123456", "DE", "+4930123456", True),
        ("0049 30 123456", None, "+4930123456", True),
        ("001 415 555 2671", "US", "+14155552671", True),
        ("011 49 30 123456", "US", "+4930123456", True),
        ("00999 123", "US", "+100999123", False),
    ],
)
def test_all_ways_to_write_a_number_become_one(
    text: str, country: str | None, e164: str, valid: bool
) -> None:
    found = number(text, "/phone", country)
    assert (found.e164, found.valid) == (e164, valid)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        "+",
        "+1",
        "07400 123456",
        "ada@example.com",
        "+999 123 456",
        "1" * 10_000,
        "+1415\x00",
        "\x07",
    ],
)
def test_what_is_no_number_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        normalise(text, "/phone")
    [error] = refused.value.errors
    assert (error.pointer, error.code) == ("/phone", "invalid_phone")
    assert "+14155552671" in error.message
    assert len(error.message) < 200


def test_a_country_must_be_one() -> None:
    with pytest.raises(Invalid) as refused:
        number("415 555 2671", "/phone", "XX")
    assert [error.pointer for error in refused.value.errors] == ["/country"]


@given(st.text(alphabet="+0123456789 -()", max_size=24), st.sampled_from([None, "US", "DE", "GB", "IT"]))
def test_the_normalised_form_is_its_own(text: str, country: str | None) -> None:
    try:
        found = number(text, "/phone", country)
    except Invalid:
        return
    assert number(found.e164, "/phone") == found


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (
            "+14155552671",
            {
                "valid": True, "type": "landline_or_mobile", "location": "San Francisco, CA",
                "format.international": "+1 415-555-2671", "format.local": "(415) 555-2671",
                "format.e164": "+14155552671", "country.code": "US", "country.name": "United States",
                "country.prefix": "+1", "country.region": "CA", "country.city": "San Francisco",
                "country.timezone": "America/Los_Angeles", "carrier.line_type": "landline_or_mobile",
                "validation.is_valid": True,
            },
        ),
        (
            "+447400123456",
            {
                "valid": True, "type": "mobile", "location": "United Kingdom",
                "format.international": "+44 7400 123456", "format.local": "07400 123456",
                "format.e164": "+447400123456", "country.code": "GB", "country.name": "United Kingdom",
                "country.prefix": "+44", "carrier.name": "Three", "carrier.line_type": "mobile",
                "validation.is_valid": True,
            },
        ),
        (
            "+80012345678",
            {
                "valid": True, "type": "toll_free", "format.international": "+800 1234 5678",
                "format.local": "1234 5678", "format.e164": "+80012345678", "country.prefix": "+800",
                "carrier.line_type": "toll_free", "validation.is_valid": True,
            },
        ),
    ],
)  # fmt: skip
def test_the_numbering_plans_tell_where_a_number_is_from(text: str, fields: dict[str, Any]) -> None:
    assert known(text) == fields


@pytest.mark.parametrize(
    ("text", "city", "region"),
    [
        ("+14155552671", "San Francisco", "CA"),
        ("+14159929960", None, "California"),
        ("+4930123456", None, None),
        ("+18005550199", None, None),
    ],
)
def test_a_lone_name_of_a_place_is_a_state_in_north_america_only(
    text: str, city: str | None, region: str | None
) -> None:
    fields = known(text)
    assert (fields.get("country.city"), fields.get("country.region")) == (city, region)


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("+911123456789", "Asia/Kolkata"),
        ("+97714123456", "Asia/Kathmandu"),
        ("+842838123456", "Asia/Ho_Chi_Minh"),
        ("+9512345678", "Asia/Yangon"),
        ("+2917123456", "Africa/Asmara"),
        ("+6913201234", "Pacific/Pohnpei"),
        ("+5491123456789", "America/Argentina/Buenos_Aires"),
        ("+380441234567", "Europe/Kyiv"),
        ("+4930123456", "Europe/Berlin"),
    ],
)
def test_a_zone_has_the_name_that_it_has_now(text: str, zone: str) -> None:
    assert known(text)["country.timezone"] == zone


def test_of_an_invalid_number_only_its_forms_are_known() -> None:
    assert known("+10000000000").keys() == {
        "format.international", "format.local", "format.e164", "country.prefix",
    }  # fmt: skip


@pytest.mark.parametrize(("fields", "credits"), [({"valid": True}, 1), ({"valid": False}, 0), ({}, 0)])
def test_only_a_valid_number_costs(fields: dict[str, Any], credits: int) -> None:
    assert cost(fields) == credits <= KIND.price
