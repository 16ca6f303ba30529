"""Quad9: it answers that names of malware, phishing and botnets do not exist."""

from __future__ import annotations

from datetime import date

import dns.flags
import dns.rcode
from dns.message import QueryMessage

from providers.domain import filtered
from providers.sources.base import Evidence


def withholds(answer: QueryMessage) -> bool:
    """Return whether the name is reported as missing, without recursion and without an authority.

    For a name that really does not exist, Quad9 sets the flag "recursion available" and names the authority.
    """
    unknown = answer.rcode() == dns.rcode.NXDOMAIN
    return unknown and not answer.flags & dns.flags.RA and not answer.authority


SOURCE = filtered.source(
    "quad9",
    "Quad9, https://quad9.net",
    withholds,
    evidence=Evidence("https://docs.quad9.net/fr/FAQ", date(2026, 11, 22)),
    base_url="dns://9.9.9.9,dns://9.9.9.10",
)
