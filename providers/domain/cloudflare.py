"""Cloudflare 1.1.1.1 for Families: it answers 0.0.0.0 for names of malware."""

from __future__ import annotations

from datetime import date

from dns.message import QueryMessage
from dns.rdata import Rdata
from dns.rdtypes.IN.A import A

from providers.domain import filtered
from providers.sources.base import Evidence


def withholds(answer: QueryMessage) -> bool:
    """Return whether the name's address is 0.0.0.0."""
    found: list[Rdata] = list(answer.resolve_chaining().answer or [])
    return any(isinstance(record, A) and record.address == "0.0.0.0" for record in found)


SOURCE = filtered.source(
    "cloudflare",
    "Cloudflare, https://developers.cloudflare.com/1.1.1.1/setup/",
    withholds,
    evidence=Evidence("https://developers.cloudflare.com/1.1.1.1/setup/", date(2026, 11, 22)),
    base_url="dns://1.1.1.2,dns://1.1.1.1",
    terms="https://www.cloudflare.com/website-terms/",
)
