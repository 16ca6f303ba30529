"""The numbering plans of the world, by the `phonenumbers` library: formats, country, sort, first carrier.

All of it is on this machine. The library's data takes some 100 MB of memory on first use.
"""

from __future__ import annotations

from datetime import date

from providers.datasets.installed import Datasets
from providers.ip.timezones import current_zone
from providers.phone.number import Number
from providers.sources.base import Evidence, Fields, LocalSource, Query, Spec

_FIELDS = frozenset(
    {
        "valid", "type", "location", "format.international", "format.local", "format.e164", "country.code",
        "country.name", "country.prefix", "country.region", "country.city", "country.timezone",
        "carrier.name", "carrier.line_type", "validation.is_valid", "validation.is_voip",
    }
)  # fmt: skip
# The library's sort of line → ours. Ambiguous sorts are left out.
_TYPES = {
    "FIXED_LINE": "landline",
    "MOBILE": "mobile",
    "FIXED_LINE_OR_MOBILE": "landline_or_mobile",
    "TOLL_FREE": "toll_free",
    "PREMIUM_RATE": "premium",
    "SHARED_COST": "shared_cost",
    "VOIP": "voip",
    "PERSONAL_NUMBER": "personal",
    "PAGER": "pager",
    "UAN": "company",
    "VOICEMAIL": "voicemail",
}
_NO_ZONE = "Etc/Unknown"
_NORTH_AMERICA = 1


def find(query: Query, datasets: Datasets) -> Fields:
    """Read the number."""
    import phonenumbers

    wanted: Number = query.value
    number = wanted.to_library_form()
    formats = phonenumbers.PhoneNumberFormat
    written: Fields = {
        "valid": wanted.valid,
        "validation.is_valid": wanted.valid,
        "format.international": phonenumbers.format_number(number, formats.INTERNATIONAL),
        "format.local": phonenumbers.format_number(number, formats.NATIONAL),
        "format.e164": wanted.e164,
        "country.prefix": f"+{number.country_code}",
    }
    return written | _find_origin(wanted) if wanted.valid else written


def _find_origin(wanted: Number) -> Fields:
    """Return the origin and the sort of a valid number."""
    import phonenumbers
    from phonenumbers import carrier, geocoder, timezone

    number = wanted.to_library_form()
    sort = _TYPES.get(phonenumbers.PhoneNumberType.to_string(phonenumbers.number_type(number)))
    code = phonenumbers.region_code_for_number(number)
    country = geocoder.country_name_for_number(number, "en")
    place = geocoder.description_for_number(number, "en")
    # "San Francisco, CA", or a state alone in North America; elsewhere a lone name can be either.
    city, comma, region = place.rpartition(", ")
    if not comma and (number.country_code != _NORTH_AMERICA or place == country):
        region = ""
    zones = sorted(set(map(current_zone, timezone.time_zones_for_number(number))))
    return {
        "type": sort,
        "location": place,
        "country.code": code if code and code.isalpha() else None,  # 001 is not a country's code
        "country.name": country,
        "country.region": region,
        "country.city": city,
        "country.timezone": zones[0] if len(zones) == 1 and zones[0] != _NO_ZONE else None,
        "carrier.name": carrier.name_for_number(number, "en"),
        "carrier.line_type": sort,
        "validation.is_voip": True if sort == "voip" else None,
    }


SOURCE = LocalSource(
    Spec(
        name="phonenumbers",
        kind="phone",
        fields=_FIELDS,
        licence="Apache-2.0",
        commercial="yes",
        terms="https://github.com/google/libphonenumber/blob/master/LICENSE",
        attribution="libphonenumber, https://github.com/google/libphonenumber",
        evidence=Evidence("https://github.com/google/libphonenumber", date(2026, 11, 21)),
        parser_version=2,
    ),
    find,
)
