"""The company of a mail domain: its industry and size, from company sources that search by domain.

The domain is the query and the cache key, so that a company is asked about once and not for each person.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

from providers.company import abstractcompany, wikidata
from providers.company.identity import Company, WantedCompany, find_registered_domain
from providers.email.maildomain import is_companys
from providers.sources.base import Context, Fields, Query, RemoteSource, SourceError

_LARGEST = (10, 50, 200, 500, 1000, 5000, 10000)


def of_domain(source: RemoteSource, name: str, value: Callable[[str], Any]) -> RemoteSource:
    """Return a source of the kind `company` as the source `name` of the kind `email`, with the same key.

    Args:
        source: the source.
        name: the other name.
        value: of the query, for a registered domain.
    """
    spec = replace(
        source.spec,
        name=name,
        kind="email",
        fields=frozenset({"industry", "company_size"}),
        account=source.spec.account or source.spec.name,
    )

    def parse(raw: Any) -> Fields:
        told = {} if raw is None else source.parse(raw)
        count: int | None = told.get("profile.employee_count")
        return {"industry": told.get("profile.industry"), "company_size": size(count) if count else None}

    def asks(query: Query) -> Query:
        domain = find_registered_domain(query.value.domain) or query.value.domain
        return replace(query, text=domain, value=value(domain))

    return replace(source, spec=spec, parse=parse, takes=_has_company, asks=asks)


def size(count: int) -> str:
    """Return the size range of a number of people, such as `51-200`."""
    at = bisect_left(_LARGEST, count)
    smallest = _LARGEST[at - 1] + 1 if at else 1
    return f"{smallest}-{_LARGEST[at]}" if at < len(_LARGEST) else f"{smallest}+"


def _has_company(query: Query) -> bool:
    return is_companys(query.value.domain)


@wraps(wikidata.fetch)
async def _item(query: Query, context: Context) -> Any:
    """Search for the company with this website and read its item; None unless exactly one has it."""
    hits = await wikidata.fetch(query, context)
    try:
        found = wikidata.parse(hits).get("candidates", [])
    except (KeyError, TypeError, ValueError) as error:
        raise SourceError("bad_response", "unexpected_shape") from error
    items = [one["wikidata"] for one in found if one["domain"] == query.value.domain]
    if len(items) != 1:
        return None
    return await wikidata.fetch(replace(query, value=Company(wikidata=items[0])), context)


ABSTRACT = of_domain(abstractcompany.SOURCE, "abstractemployer", lambda domain: Company(domain=domain))
WIKIDATA = of_domain(
    replace(wikidata.SOURCE, fetch=_item),
    "wikidataemployer",
    lambda domain: WantedCompany(domain.partition(".")[0], domain),
)
