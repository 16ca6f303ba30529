"""SEC EDGAR: companies with listed securities in the United States.

Names are searched in the SEC's list of them, which is read once a day. The operator's key, if set, is the
contact address that the SEC asks for.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from typing import Any
from weakref import WeakKeyDictionary

import httpx

from models.names import company_name
from providers.company.contact import user_agent
from providers.company.identity import (
    Company,
    WantedCompany,
    ask_by,
    candidate,
    candidates,
    find_registered_domain,
)
from providers.sources.base import (
    Context,
    Evidence,
    Fields,
    Query,
    RemoteSource,
    RemoteSpec,
    SourceError,
    json_answer,
)
from settings import Rate

_DATA, _FILES = "https://data.sec.gov", "https://www.sec.gov"
_LIST_SECONDS = 86400.0
# The place of incorporation: "CORP /DE/", "CORP /DE", "BANCORP \DE\", "Inc./Marshall Islands".
_STATE = re.compile(r"\s*[/\\][A-Z][A-Za-z ]+[/\\]?$")
_Index = dict[str, list[tuple[str, str]]]
# Client → until when (monotonic) its list is fresh, and bare name → companies.
_lists: WeakKeyDictionary[httpx.AsyncClient, tuple[float, _Index]] = WeakKeyDictionary()


@dataclass(frozen=True)
class SearchResult:
    """The list's entries: number and name of each company."""

    wanted: WantedCompany
    companies: list[tuple[str, str]]


async def fetch(query: Query, context: Context) -> Any:
    """Search the list, or read the file of a company; None if the SEC does not know it."""
    if isinstance(query.value, WantedCompany):
        index = await _list(context)
        return SearchResult(query.value, index.get(company_name(query.value.name), []))
    response = await context.client.get(
        f"{context.base_url}/submissions/CIK{query.value.cik}.json",
        headers=user_agent(context),
        timeout=context.timeout,
    )
    return json_answer(response, empty=frozenset({404}))


async def _list(context: Context) -> _Index:
    base_url = _FILES if context.base_url == _DATA else context.base_url
    until, index = _lists.get(context.client, (0.0, {}))
    if time.monotonic() >= until:
        response = await context.client.get(
            f"{base_url}/files/company_tickers.json", headers=user_agent(context), timeout=context.timeout
        )
        index = await asyncio.to_thread(index_companies, json_answer(response))
        _lists[context.client] = (time.monotonic() + _LIST_SECONDS, index)
    return index


def index_companies(told: Any) -> _Index:
    """Return bare name → the companies of that name; a company has a row for each security.

    Raises:
        SourceError: `bad_response`, if it is no such list.
    """
    index: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    try:
        for row in told.values():
            company = (f"{int(row['cik_str']):010d}", _STATE.sub("", row["title"]))
            if company not in index[company_name(company[1])]:
                index[company_name(company[1])].append(company)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise SourceError("bad_response", "company_list") from None
    return dict(index)


def parse(raw: Any) -> Fields:
    """Read the list's entries or the company's file."""
    if raw is None:
        return {}
    if isinstance(raw, SearchResult):
        return candidates(
            candidate(raw.wanted, name, Company(cik=cik), country="United States")
            for cik, name in raw.companies
        )
    website = raw["website"] or None
    profile: dict[str, Any] = {
        "name": raw["name"],
        "domain": find_registered_domain(website.partition("://")[2].partition("/")[0]) if website else None,
        "industry": raw["sicDescription"],
        "address": _address(raw["addresses"].get("business") or {}),
        "phone": raw["phone"],
        "website": website,
        "ticker": next(iter(raw["tickers"]), None),
        "jurisdiction": raw["stateOfIncorporationDescription"] or raw["stateOfIncorporation"],
        "sic_codes": [raw["sic"]] if raw["sic"] else None,
    }
    return {f"profile.{name}": value for name, value in profile.items() if value}


def _address(told: dict[str, Any]) -> str:
    parts = ("street1", "street2", "city", "stateOrCountryDescription", "zipCode")
    return ", ".join(told[part] for part in parts if told.get(part))


_PROFILE = "name domain industry address phone website ticker jurisdiction sic_codes".split()

SOURCE = RemoteSource(
    RemoteSpec(
        name="sec",
        kind="company",
        fields=frozenset({"candidates", *(f"profile.{name}" for name in _PROFILE)}),
        licence="public domain",
        commercial="yes",
        terms="https://www.sec.gov/about/privacy-information",
        attribution="U.S. Securities and Exchange Commission, EDGAR, https://www.sec.gov/edgar",
        evidence=Evidence(
            "https://github.com/dgunning/edgartools/blob/HEAD/data/company_submission.json",
            date(2026, 11, 21),
            second_hand=True,
        ),
        base_url=_DATA,
        key="optional",
        timeout=6,
        ttl=86400,
        negative_ttl=86400,
        rates=(Rate(8, 1),),
    ),
    fetch,
    parse,
    takes=lambda query: (
        query.value.domain is None if isinstance(query.value, WantedCompany) else query.value.cik is not None
    ),
    asks=ask_by("cik"),
)
