"""Hunter's enrichment: the person behind an address and their company. This source and `hunter` share a key.

It counts only successful requests, and knows people at work.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

from providers.email.maildomain import is_companys
from providers.sources.base import Evidence, RemoteSpec
from providers.sources.rest import Get, Table, rest, text
from settings import Rate


def _page(address: str) -> Callable[[Any], str]:
    """Return a converter from a handle to the address of its page."""
    return lambda handle: address + text(handle)


def _company_domain(value: Any) -> str | None:
    """Return an employer's domain, but not that of the provider of the mailbox."""
    return value if is_companys(text(value)) else None


_FIELDS: Table = {
    "name": ("data.person.name.fullName", text),
    "first_name": ("data.person.name.givenName", text),
    "last_name": ("data.person.name.familyName", text),
    "location": ("data.person.location", text),
    "city": ("data.person.geo.city", text),
    "country": ("data.person.geo.country", text),
    "bio": ("data.person.bio?", text),
    "photo": ("data.person.avatar?", text),
    "phone": ("data.person.phone?", text),
    "company": ("data.person.employment.name", text),
    "company_domain": ("data.person.employment.domain", _company_domain),
    "job_role": ("data.person.employment.title", text),
    "department": ("data.person.employment.role", text),
    "seniority": ("data.person.employment.seniority", text),
    "industry": ("data.company.category.industry", text),
    "company_size": ("data.company.metrics.employees", str),
    "socials.facebook": ("data.person.facebook?.handle", _page("https://www.facebook.com/")),
    "socials.github": ("data.person.github?.handle", _page("https://github.com/")),
    "socials.linkedin": ("data.person.linkedin?.handle", _page("https://www.linkedin.com/in/")),
    "socials.twitter": ("data.person.twitter?.handle", _page("https://x.com/")),
}

SOURCE = rest(
    RemoteSpec(
        name="hunterperson",
        kind="email",
        fields=frozenset(_FIELDS),
        licence="Hunter terms of service",
        terms="https://hunter.io/terms-of-service",
        attribution="Hunter, https://hunter.io",
        evidence=Evidence(
            "https://github.com/hunter-io/chatgpt-mcp/blob/main/src/tools/enrichment.ts", date(2026, 11, 22)
        ),
        base_url="https://api.hunter.io/v2",
        key="required",
        account="hunter",
        personal=True,
        timeout=6,
        ttl=7 * 86400,
        negative_ttl=86400,
        rates=(Rate(10, 1), Rate(300, 60)),  # of the account: those of its verifier, the strictest
    ),
    Get(
        path="/combined/find",
        params={"email": "{query}"},
        headers={"x-api-key": "{key}"},
        statuses={404: "empty"},
        pauses={402: 3600, 403: 1, 429: 3600},
    ),
    _FIELDS,
)
