"""The kind `domain`: its sources in the order of precedence, and how their fields become one answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from models import domains
from providers.domain import (
    cloudflare,
    dns,
    hosting,
    quad9,
    rdapdomain,
    threatfox,
    tls,
    urlhaus,
    virustotaldomain,
    wellknown,
    whois,
)
from providers.domain.answer import DomainAnswer
from providers.sources import verdicts
from providers.sources.base import Query, Rule
from providers.sources.kind import Kind

_RULES: dict[str, Rule] = {"threat.malicious": "any_true", "threat.categories": "union"}
# Fields that are known without a request are not charged.
_FREE = frozenset({"domain", "threat.is_known_service"})


def normalise(text: str, pointer: str) -> Query:
    """Return the query for the A-label form of a domain, in lower case and without a last dot.

    Raises:
        Invalid: if `text` is not a domain that can be registered, or a name under one.
    """
    domain = domains.parse_domain(text, pointer)
    return Query("domain", domain.name, domain)


def cost(fields: Mapping[str, Any]) -> int:
    """Return one credit if anything is known about the domain."""
    return int(any(value not in (None, []) for path, value in fields.items() if path not in _FREE))


KIND = Kind(
    name="domain",
    sources=(
        rdapdomain.SOURCE,
        whois.SOURCE,
        dns.SOURCE,
        tls.SOURCE,
        hosting.SOURCE,
        virustotaldomain.SOURCE,
        urlhaus.SOURCE,
        threatfox.SOURCE,
        cloudflare.SOURCE,
        quad9.SOURCE,
        wellknown.SOURCE,
    ),
    answer=DomainAnswer,
    example="example.com",
    rules=_RULES,
    normalise=normalise,
    echo="domain",
    price=1,
    cost=cost,
    signs=verdicts.DOMAIN,
)
