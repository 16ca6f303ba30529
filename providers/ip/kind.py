"""The kind `ip`: its sources in the order of precedence, and how their fields become one answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from ipaddress import IPv6Address, ip_address
from itertools import combinations
from typing import Any

from models.errors import FieldError, Invalid
from providers.ip import (
    abstractip,
    abuseipdb,
    applerelay,
    asn,
    cloud,
    dbip,
    greynoise,
    ptr,
    rdap,
    reserved,
    spamhaus,
    threatfoxip,
    tor,
    urlhausip,
    virustotal,
    wellknown,
    x4bnet,
)
from providers.ip.answer import AutonomousSystem, Company, IpAnswer, Security
from providers.ip.distance import kilometres
from providers.ip.timezones import local_time
from providers.sources import verdicts
from providers.sources.base import Fields, Query, Rule
from providers.sources.kind import Derived, Kind

_LONGEST = 45  # an IPv4 address mapped into IPv6, written out
_RULES: dict[str, Rule] = {
    **{f"security.{flag}": "any_true" for flag in Security.model_fields},
    **dict.fromkeys(("asn.name", "company.name"), "company"),
    "threat.is_tor": "any_true",
    "threat.is_known_service": "any_true",
    "location.is_anycast": "any_true",
    "threat.abuse_score": "max",
    "threat.total_reports": "max",
}
_LONGITUDE, _LATITUDE, _ACCURACY = (f"location.{name}" for name in ("longitude", "latitude", "accuracy_km"))
# The city of one source and the coordinates of another are no place together.
_PLACE = frozenset(
    {"location.city", "location.region", "location.postal_code", _LONGITUDE, _LATITUDE, _ACCURACY}
)
_CLOCKS = frozenset(f"timezone.{name}" for name in ("name", "abbreviation", "utc_offset"))
_TOGETHER = (
    _PLACE,
    frozenset(f"asn.{name}" for name in AutonomousSystem.model_fields),
    frozenset(f"company.{name}" for name in Company.model_fields),
)


def normalise(text: str, pointer: str) -> Query:
    """Return the query for an address in canonical form. IPv4 mapped into IPv6 becomes IPv4.

    Raises:
        Invalid: if `text` is not an IPv4 or IPv6 address.
    """
    text = text.strip()
    try:
        if len(text) > _LONGEST or "%" in text:
            raise ValueError
        address = ip_address(text)
    except ValueError:
        message = "This is not an IP address; give one such as 8.8.8.8 or 2606:4700:4700::1111."
        raise Invalid([FieldError(pointer, "invalid_ip", message)]) from None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return Query("ip", str(address), address)


def derive(fields: Mapping[str, Any], moment: datetime) -> Derived:
    """Return the abbreviation and offset of the time zone at the moment."""
    zone = fields.get("timezone.name")
    local = local_time(zone, moment) if zone else None
    if local is None:
        return {}
    return {
        "timezone.abbreviation": (local.abbreviation, "timezone.name"),
        "timezone.utc_offset": (local.utc_offset, "timezone.name"),
    }


def compare(told: Mapping[str, Fields]) -> Fields:
    """Return the greatest distance between the places that sources name, if several do."""
    points = [
        (own[_LATITUDE], own[_LONGITUDE]) for own in told.values() if {_LATITUDE, _LONGITUDE} <= own.keys()
    ]
    apart = [kilometres(*pair) for pair in combinations(points, 2)]
    return {_ACCURACY: float(round(max(apart)))} if apart else {}


def drop_anycast_place(fields: Fields, offset: int, limit: int | None) -> Fields:
    """Return all fields; for an anycast address without place and clock time, as it has many places."""
    if not fields.get("location.is_anycast"):
        return fields
    return {path: value for path, value in fields.items() if path not in _PLACE | _CLOCKS}


KIND = Kind(
    name="ip",
    sources=(
        reserved.SOURCE,
        wellknown.SOURCE,
        abstractip.SOURCE,
        dbip.SOURCE,
        asn.SOURCE,
        tor.SOURCE,
        x4bnet.SOURCE,
        applerelay.SOURCE,
        cloud.SOURCE,
        spamhaus.SOURCE,
        virustotal.SOURCE,
        rdap.SOURCE,
        ptr.SOURCE,
        abuseipdb.SOURCE,
        urlhausip.SOURCE,
        threatfoxip.SOURCE,
        greynoise.SOURCE,
    ),
    answer=IpAnswer,
    example="8.8.8.8",
    rules=_RULES,
    normalise=normalise,
    echo="ip_address",
    together=_TOGETHER,
    derive=derive,
    compare=compare,
    cut=drop_anycast_place,
    origins={
        **dict.fromkeys(_PLACE | _CLOCKS, ("location.is_anycast",)),
        **dict.fromkeys(_CLOCKS - {"timezone.name"}, ("timezone.name", "location.is_anycast")),
        "timezone": ("location.is_anycast",),
    },
    signs=verdicts.IP,
    main=frozenset({"location.country_code", "asn.asn"}),
)
