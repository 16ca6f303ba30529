"""The company of a mail domain: its industry and size, from sources of companies that take a domain.

They are asked about the domain and kept by it, so that a company is paid for once and not for each person.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import Any, TypeVar

from providers.base import Fields, Query, RemoteSource
from providers.company import abstractcompany
from providers.company.identity import Company
from providers.email.maildomain import is_companys

_LARGEST = (10, 50, 200, 500, 1000, 5000, 10000)
_Source = TypeVar("_Source", bound=RemoteSource)


def of_domain(source: _Source, name: str) -> _Source:
    """A source of the kind `company` as the source `name` of the kind `email`, with the same key."""
    spec = replace(
        source.spec,
        name=name,
        kind="email",
        fields=frozenset({"industry", "company_size"}),
        account=source.spec.account or source.spec.name,
    )

    def parse(raw: Any) -> Fields:
        told = source.parse(raw)
        count: int | None = told.get("profile.employee_count")
        return {"industry": told.get("profile.industry"), "company_size": size(count) if count else None}

    return replace(source, spec=spec, parse=parse, takes=_has_company, asks=_company)


def size(count: int) -> str:
    """The range that a number of people is in, such as `51-200`."""
    at = bisect_left(_LARGEST, count)
    smallest = _LARGEST[at - 1] + 1 if at else 1
    return f"{smallest}-{_LARGEST[at]}" if at < len(_LARGEST) else f"{smallest}+"


def _has_company(query: Query) -> bool:
    return is_companys(query.value.domain)


def _company(query: Query) -> Query:
    domain: str = query.value.domain
    return replace(query, text=domain, value=Company(domain=domain))


ABSTRACT = of_domain(abstractcompany.SOURCE, "abstractemployer")
