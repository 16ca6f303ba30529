"""The answer of an IP lookup: blocks that are always objects, with null for unknown values."""

from __future__ import annotations

from pydantic import Field

from models.lookups.lookups import Block, LookupAnswer, Verdict


class Security(Block):
    """The known uses of the address. Null means unknown, which is not the same as false."""

    is_vpn: bool | None = Field(description="Whether it is an exit of a VPN.")
    is_proxy: bool | None = Field(description="Whether it is an open proxy.")
    is_tor: bool | None = Field(description="Whether it is an exit of Tor.")
    is_hosting: bool | None = Field(description="Whether it is in a data centre.")
    is_relay: bool | None = Field(description="Whether it is an exit of a privacy relay.")
    is_mobile: bool | None = Field(description="Whether it is of a mobile network.")
    is_abuse: bool | None = Field(description="Whether abuse of it is known.")


class AutonomousSystem(Block):
    """The network that announces the address."""

    asn: int | None = Field(description="Its number.")
    name: str | None = Field(description="Its name.")
    domain: str | None = Field(description="The domain of who runs it.")
    type: str | None = Field(description="What sort of network it is.")


class Company(Block):
    """The company that uses the address."""

    name: str | None = Field(description="Its name.")
    domain: str | None = Field(description="The domain of its site.")
    type: str | None = Field(description="What sort of company it is.")


class Location(Block):
    """The place where the address is used, according to databases. An anycast address has no single place."""

    city: str | None = Field(description="The city.")
    region: str | None = Field(description="The region or state.")
    country: str | None = Field(description="The country's name.")
    country_code: str | None = Field(description="The country by two letters.")
    postal_code: str | None = Field(description="The postal code.")
    continent: str | None = Field(description="The continent's name.")
    longitude: float | None = Field(description="In degrees, east is positive.")
    latitude: float | None = Field(description="In degrees, north is positive.")
    accuracy_km: float | None = Field(
        description="How far off the coordinates may be: as a source says, or else how far sources are apart."
    )
    is_anycast: bool | None = Field(
        description="Whether machines in many places answer for it; then it has no city."
    )


class Timezone(Block):
    """The zone's IANA name, and its current clock time; `utc_offset` in hours."""

    name: str | None = Field(description="The zone's IANA name.")
    abbreviation: str | None = Field(description="The short name that its clocks have now.")
    utc_offset: float | None = Field(description="The hours that they are ahead of UTC now.")


class IpThreat(Block):
    """Reports of abuse databases and scanner observers."""

    abuse_score: float | None = Field(description="How sure abuse is, from 0 to 100.")
    total_reports: int | None = Field(description="How often abuse was reported.")
    last_reported_at: str | None = Field(description="When it was last reported.")
    usage_type: str | None = Field(description="What the address is used for.")
    is_tor: bool | None = Field(description="Whether it is an exit of Tor.")
    is_whitelisted: bool | None = Field(description="Whether it is known to be harmless.")
    distinct_users: int | None = Field(description="How many people reported it.")
    is_scanner: bool | None = Field(description="Whether it scans the internet.")
    is_known_service: bool | None = Field(description="Whether it is of a common service.")
    classification: str | None = Field(description="What observers of scanners call it.")
    scanner_name: str | None = Field(description="Whose scanner it is.")
    last_seen: str | None = Field(description="When it was last seen scanning.")


class Malware(Block):
    """The verdicts of scanning engines on the address; `network` is the CIDR range that contains it."""

    malicious_count: int | None = Field(description="How many engines call it malicious.")
    suspicious_count: int | None = Field(description="How many engines call it suspicious.")
    harmless_count: int | None = Field(description="How many engines call it harmless.")
    undetected_count: int | None = Field(description="How many engines know nothing of it.")
    reputation: float | None = Field(description="What its users vote; negative is bad.")
    network: str | None = Field(description="The CIDR range that it is in.")


class IpAnswer(LookupAnswer):
    """The answer about an IP address."""

    ip_address: str = Field(description="The address, in canonical form.")
    hostname: str | None = Field(description="The name that it has in reverse DNS.")
    security: Security = Field(description="What it is used for.")
    asn: AutonomousSystem = Field(description="Its network.")
    company: Company = Field(description="Who uses it.")
    location: Location = Field(description="Where it is used.")
    timezone: Timezone = Field(description="The time there.")
    threat: IpThreat = Field(description="What is reported against it.")
    malware: Malware = Field(description="What engines call it.")
    verdict: Verdict = Field(description="Whether it is bad, as far as the sources tell.")
