"""Companies House: the register of the United Kingdom, with officers and persons with significant control."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import date
from typing import Any

import httpx

from providers.company.identity import Company, WantedCompany, ask_by, candidate, candidates
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

_HITS = 20
_MOST_PEOPLE = 100
_UNITED_KINGDOM = "United Kingdom"
_ADDRESS = (
    "care_of",
    "po_box",
    "premises",
    "address_line_1",
    "address_line_2",
    "locality",
    "region",
    "postal_code",
)
_NOT_FOUND = frozenset({404})


@dataclass(frozen=True)
class SearchResult:
    """The companies that a search returned."""

    wanted: WantedCompany
    items: list[dict[str, Any]]


@dataclass(frozen=True)
class RegisterEntries:
    """The register's entries of one company: the company, its officers, its controllers. None: no entry."""

    company: Any
    officers: Any
    controllers: Any


async def fetch(query: Query, context: Context) -> SearchResult | RegisterEntries:
    """Search for the company, or read its entries in the register."""
    if isinstance(query.value, WantedCompany):
        told = await _get(context, "/search/companies", q=query.value.name, items_per_page=str(_HITS))
        if not isinstance(told, dict) or "items" not in told:
            raise SourceError("bad_response", "unexpected_shape")
        return SearchResult(query.value, told["items"])  # pyright: ignore[reportUnknownArgumentType]
    path = f"/company/{query.value.companies_house}"
    pages = {"items_per_page": str(_MOST_PEOPLE)}
    return RegisterEntries(
        *await asyncio.gather(
            _get(context, path),
            _get(context, f"{path}/officers", **pages),
            _get(context, f"{path}/persons-with-significant-control", **pages),
        )
    )


async def _get(context: Context, path: str, **parameters: str) -> Any:
    response = await context.client.get(
        f"{context.base_url}{path}",
        params=parameters,
        auth=httpx.BasicAuth(context.key or "", ""),
        timeout=context.timeout,
    )
    return json_answer(response, empty=_NOT_FOUND if path.startswith("/company/") else frozenset())


def parse(raw: SearchResult | RegisterEntries) -> Fields:
    """RegisterEntries the result of the search, or the register's entries."""
    if isinstance(raw, SearchResult):
        return candidates(_candidate(raw.wanted, item) for item in raw.items)
    if raw.company is None:
        return {}
    company = raw.company
    profile: dict[str, Any] = {
        "name": company["company_name"],
        "founding_date": company.get("date_of_creation"),
        "company_type": company["type"],
        "status": company.get("company_status"),
        "address": _address(company.get("registered_office_address") or {}),
        "country": None if company["type"] == "oversea-company" else _UNITED_KINGDOM,
        "registration_number": company["company_number"],
        "jurisdiction": company.get("jurisdiction"),
        "sic_codes": company.get("sic_codes"),
        "officers": [_officer(one) for one in _items(raw.officers) if "resigned_on" not in one],
        "shareholders": [_controller(one) for one in _items(raw.controllers) if not _has_ceased(one)],
    }
    return {f"profile.{name}": value for name, value in profile.items() if value}


def _candidate(wanted: WantedCompany, item: dict[str, Any]) -> dict[str, Any] | None:
    ids = Company(companies_house=item["company_number"])
    description = " ".join(part for part in (item.get("company_status"), item.get("address_snippet")) if part)
    return candidate(wanted, item["title"], ids, country=_UNITED_KINGDOM, description=description or None)


def _items(told: Any) -> list[dict[str, Any]]:
    return told["items"] if told else []


def _address(told: dict[str, Any]) -> str:
    return ", ".join(told[part] for part in _ADDRESS if told.get(part))


def _officer(told: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": told["name"],
        "role": told["officer_role"],
        "appointed_on": told.get("appointed_on"),
        "nationality": told.get("nationality"),
    }


def _has_ceased(told: dict[str, Any]) -> bool:
    return "ceased_on" in told or bool(told.get("ceased"))  # a protected person has no date


def _controller(told: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": told.get("name") or told["kind"],  # a protected person has no name here
        "natures_of_control": told.get("natures_of_control", []),
        "nationality": told.get("nationality"),
        "notified_on": told.get("notified_on"),
    }


_PROFILE = (
    "name founding_date company_type status address country registration_number jurisdiction sic_codes"
    " officers shareholders"
).split()

SOURCE = RemoteSource(
    RemoteSpec(
        name="companieshouse",
        kind="company",
        fields=frozenset({"candidates", *(f"profile.{name}" for name in _PROFILE)}),
        licence="Open Government Licence v3.0",
        commercial="yes",
        terms="https://www.nationalarchives.gov.uk/doc/open-government-licence/version/3/",
        attribution="Companies House, https://www.gov.uk/government/organisations/companies-house",
        evidence=Evidence(
            "https://github.com/kevbite/CompaniesHouse.NET/tree/master/spec/upstream",
            date(2026, 11, 21),
            second_hand=True,
        ),
        base_url="https://api.company-information.service.gov.uk",
        key="required",
        timeout=6,
        ttl=86400,
        negative_ttl=86400,
        rates=(Rate(150, 300),),
    ),
    fetch,
    parse,
    takes=lambda query: (
        query.value.domain is None
        if isinstance(query.value, WantedCompany)
        else query.value.companies_house is not None
    ),
    asks=ask_by("companies_house"),
)
