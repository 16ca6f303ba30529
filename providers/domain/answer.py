"""The answer of a domain lookup: blocks that are always objects, null where nobody knows."""

from __future__ import annotations

from models.lookups import Block, LookupAnswer


class Whois(Block):
    """The registration, of the domain that is registered: for `www.example.com` that is `example.com`.

    `created` and `expires` are dates, `YYYY-MM-DD`.
    """

    registrar: str | None
    created: str | None
    expires: str | None
    name_servers: list[str]


class Dns(Block):
    """The records of the name itself, in the form that zone files have, and its DMARC policy."""

    a: list[str]
    aaaa: list[str]
    mx: list[str]
    txt: list[str]
    ns: list[str]
    soa: str | None
    caa: list[str]
    dmarc: str | None


class Ssl(Block):
    """The certificate that the name's web server shows, valid or not; dates are `YYYY-MM-DD`."""

    issuer: str | None
    valid_from: str | None
    valid_to: str | None
    subject_alt_names: list[str]


class Threat(Block):
    """Whether someone holds the domain to be malicious; null is unknown, which is not the same as false."""

    malicious: bool | None
    categories: list[str]


class Hosting(Block):
    """Where the name leads: its first IPv4 address, and the network and country of that."""

    ip: str | None
    asn: int | None
    asn_name: str | None
    company: str | None
    country_code: str | None


class DomainAnswer(LookupAnswer):
    """What is known about a domain."""

    domain: str
    whois: Whois
    dns: Dns
    ssl: Ssl
    threat: Threat
    hosting: Hosting
