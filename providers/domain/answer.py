"""The answer of a domain lookup: blocks that are always objects, with null for unknown values."""

from __future__ import annotations

from pydantic import Field

from models.lookups.lookups import Block, LookupAnswer, Verdict


class Whois(Block):
    """The registration, of the registered domain: for `www.example.com` that is `example.com`.

    `created` and `expires` are dates, `YYYY-MM-DD`.
    """

    registered: bool | None = Field(
        description="Whether the registry knows the domain; `false` only where no name server does either."
    )
    registrar: str | None = Field(description="Where the domain is registered.")
    created: str | None = Field(description="Since when, `YYYY-MM-DD`.")
    expires: str | None = Field(description="Until when, `YYYY-MM-DD`.")
    name_servers: list[str] = Field(description="Its name servers.")


class Dns(Block):
    """The records of the name itself, in the form of zone files, and its DMARC policy.

    A type that could not be queried is null, and `failed` of the source `dns` in `providers` has the reason.
    """

    a: list[str] | None = Field(description="IPv4 addresses.")
    aaaa: list[str] | None = Field(description="IPv6 addresses.")
    mx: list[str] | None = Field(description="Mail servers with their preference.")
    txt: list[str] | None = Field(description="Texts.")
    ns: list[str] | None = Field(description="Name servers.")
    soa: str | None = Field(description="The start of authority.")
    caa: list[str] | None = Field(description="Who may issue certificates.")
    dmarc: str | None = Field(description="The DMARC policy.")


class Ssl(Block):
    """The certificate that the name's web server presents, valid or not; dates are `YYYY-MM-DD`."""

    issuer: str | None = Field(description="Who issued the certificate.")
    valid_from: str | None = Field(description="Since when it is valid, `YYYY-MM-DD`.")
    valid_to: str | None = Field(description="Until when it is valid, `YYYY-MM-DD`.")
    subject_alt_names: list[str] = Field(description="The names that it is for.")


class DomainThreat(Block):
    """The reports of the domain as malicious; null means unknown, which is not the same as false."""

    malicious: bool | None = Field(description="Whether someone holds the domain to be malicious.")
    categories: list[str] = Field(description="As what.")
    is_known_service: bool | None = Field(
        description="Whether it is the name of a service that everybody uses."
    )
    malicious_count: int | None = Field(description="How many engines call it malicious.")
    suspicious_count: int | None = Field(description="How many engines call it suspicious.")
    harmless_count: int | None = Field(description="How many engines call it harmless.")
    undetected_count: int | None = Field(description="How many engines know nothing of it.")


class Hosting(Block):
    """The host of the name: its first IPv4 address, with the network and country of that address."""

    ip: str | None = Field(description="The first IPv4 address of the name.")
    asn: int | None = Field(description="The number of its network.")
    asn_name: str | None = Field(description="The name of its network.")
    company: str | None = Field(description="Who runs it.")
    country_code: str | None = Field(description="Where it is, by two letters.")


class DomainAnswer(LookupAnswer):
    """The answer about a domain."""

    domain: str = Field(description="The domain as it was looked up, as an A-label.")
    whois: Whois = Field(description="Its registration.")
    dns: Dns = Field(description="Its DNS records.")
    ssl: Ssl = Field(description="The certificate of its web server.")
    threat: DomainThreat = Field(description="What is known against it.")
    hosting: Hosting = Field(description="Where it is hosted.")
    verdict: Verdict = Field(description="Whether it is bad, as far as the sources tell.")
