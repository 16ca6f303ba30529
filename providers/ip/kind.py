"""The kind `ip`: its sources in the order of precedence, and how their fields become one answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from ipaddress import IPv6Address, ip_address
from typing import Any

from models.errors import FieldError, Invalid
from providers import verdicts
from providers.base import Derived, Kind, Query, Rule
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
    x4bnet,
)
from providers.ip.answer import AutonomousSystem, Company, IpAnswer, Security
from providers.ip.timezones import local_time

_LONGEST = 45  # an IPv4 address mapped into IPv6, written out
_RULES: dict[str, Rule] = {
    **{f"security.{flag}": "any_true" for flag in Security.model_fields},
    **dict.fromkeys(("asn.name", "company.name"), "company"),
    "threat.is_tor": "any_true",
    "threat.abuse_score": "max",
    "threat.total_reports": "max",
}
# The city of one source and the coordinates of another are nowhere.
_TOGETHER = (
    frozenset(f"location.{name}" for name in ("city", "region", "postal_code", "longitude", "latitude")),
    frozenset(f"asn.{name}" for name in AutonomousSystem.model_fields),
    frozenset(f"company.{name}" for name in Company.model_fields),
)


def normalise(text: str, pointer: str) -> Query:
    """The canonical form of an address; one mapped into IPv6 is the IPv4 address.

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
    """What clocks show in the time zone."""
    zone = fields.get("timezone.name")
    local = local_time(zone, moment) if zone else None
    if local is None:
        return {}
    return {
        "timezone.abbreviation": (local.abbreviation, "timezone.name"),
        "timezone.utc_offset": (local.utc_offset, "timezone.name"),
    }


KIND = Kind(
    name="ip",
    sources=(
        reserved.SOURCE,
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
    origins={f"timezone.{name}": ("timezone.name",) for name in ("abbreviation", "utc_offset")},
    signs=verdicts.IP,
    main=frozenset({"location.country_code", "asn.asn"}),
)
