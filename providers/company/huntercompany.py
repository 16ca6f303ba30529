"""Hunter: data about the company behind a domain. It uses the key of `hunter`, or its own."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

from providers.company.identity import Company
from providers.ip.countries import named_country
from providers.sources.base import Evidence, Query, RemoteSpec
from providers.sources.rest import Get, Table, integer, rest, text
from settings import Rate

_QUOTA_SECONDS = 3600.0


def _words(told: Any) -> str | None:
    return text(told) or None


def _count(told: Any) -> int | None:
    """Return a number of people; None for a range such as `11-50`."""
    return (int(told) if told.isdecimal() else None) if isinstance(told, str) else integer(told)


def _first(told: list[Any]) -> str | None:
    return text(told[0]) if told else None


def _linkedin(handle: Any) -> str | None:
    path = text(handle)
    return f"https://www.linkedin.com/{path if '/' in path else f'company/{path}'}" if path else None


def _twitter(handle: Any) -> str | None:
    return f"https://x.com/{text(handle)}" if handle else None


_FIELDS: Table = {
    "profile.name": ("data.name", _words),
    "profile.domain": ("data.domain", _words),
    "profile.description": ("data.description?", _words),
    "profile.founding_date": ("data.foundedYear?", lambda year: str(integer(year))),
    "profile.industry": ("data.category?.industry?", _words),
    "profile.company_type": ("data.type?", _words),
    "profile.employee_count": ("data.metrics?.employees?", _count),
    "profile.address": ("data.location?", _words),
    "profile.country": ("data.geo?.country?", named_country),
    "profile.phone": ("data.site?.phoneNumbers?", _first),
    "profile.logo": ("data.logo?", _words),
    "profile.linkedin": ("data.linkedin?.handle?", _linkedin),
    "profile.twitter": ("data.twitter?.handle?", _twitter),
    "profile.ticker": ("data.ticker?", _words),
    "profile.sic_codes": ("data.category?.sicCode?", lambda code: [text(code)]),
}
_REQUEST = Get(
    path="/companies/find",
    params={"domain": "{query}"},
    headers={"x-api-key": "{key}"},
    # Here 403 means too many requests, and 401 a bad key.
    statuses={404: "empty"},
    pauses={402: _QUOTA_SECONDS, 403: 1},
)


def _domain(query: Query) -> Query:
    return replace(query, text=query.value.domain)


SOURCE = replace(
    rest(
        RemoteSpec(
            name="huntercompany",
            kind="company",
            fields=frozenset(_FIELDS),
            licence="Hunter terms of service",
            terms="https://hunter.io/terms-of-service",
            attribution="Hunter, https://hunter.io",
            evidence=Evidence(
                "https://github.com/api-evangelist/hunter-io/blob/main/openapi/hunter-io-enrichment-api-openapi.yml",
                date(2026, 11, 22),
                second_hand=True,
            ),
            base_url="https://api.hunter.io/v2",
            key="required",
            account="hunter",
            timeout=6,
            ttl=7 * 86400,
            negative_ttl=86400,
            rates=(Rate(10, 1), Rate(300, 60)),  # of the account: those of its verifier, the strictest
        ),
        _REQUEST,
        _FIELDS,
        takes=lambda query: isinstance(query.value, Company) and query.value.domain is not None,
    ),
    asks=_domain,
)
