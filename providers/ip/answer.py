"""The answer of an IP lookup: blocks that are always objects, null where nobody knows."""

from __future__ import annotations

from models.lookups import Block, LookupAnswer


class Security(Block):
    """What the address is known to be used for. Null is unknown, which is not the same as false."""

    is_vpn: bool | None
    is_proxy: bool | None
    is_tor: bool | None
    is_hosting: bool | None
    is_relay: bool | None
    is_mobile: bool | None
    is_abuse: bool | None


class AutonomousSystem(Block):
    """The network that announces the address."""

    asn: int | None
    name: str | None
    domain: str | None
    type: str | None


class Company(Block):
    """Who uses the address."""

    name: str | None
    domain: str | None
    type: str | None


class Location(Block):
    """Where the address is used, as far as databases know."""

    city: str | None
    region: str | None
    country: str | None
    country_code: str | None
    postal_code: str | None
    continent: str | None
    longitude: float | None
    latitude: float | None


class Timezone(Block):
    """The zone's IANA name, and what its clocks show now; `utc_offset` in hours."""

    name: str | None
    abbreviation: str | None
    utc_offset: float | None


class Threat(Block):
    """What abuse databases and scanner observers report."""

    abuse_score: float | None
    total_reports: int | None
    last_reported_at: str | None
    usage_type: str | None
    is_tor: bool | None
    is_whitelisted: bool | None
    distinct_users: int | None
    is_scanner: bool | None
    is_known_service: bool | None
    classification: str | None
    scanner_name: str | None
    last_seen: str | None


class Malware(Block):
    """How many engines call the address what; `network` is the CIDR range that it is in."""

    malicious_count: int | None
    suspicious_count: int | None
    harmless_count: int | None
    undetected_count: int | None
    reputation: float | None
    network: str | None


class IpAnswer(LookupAnswer):
    """What is known about an IP address."""

    ip_address: str
    hostname: str | None
    security: Security
    asn: AutonomousSystem
    company: Company
    location: Location
    timezone: Timezone
    threat: Threat
    malware: Malware
