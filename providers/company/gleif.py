"""GLEIF: legal entities with a legal entity identifier (LEI), as their registers record them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

from providers.company.identity import Company, WantedCompany, ask_by, candidate, candidates
from providers.ip.countries import named_country
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
# Companies House keeps three registers: of England and Wales, of Northern Ireland, of Scotland.
_COMPANIES_HOUSE = frozenset({"RA000585", "RA000586", "RA000587"})


@dataclass(frozen=True)
class SearchResult:
    """The records that a search returned."""

    wanted: WantedCompany
    records: list[dict[str, Any]]


async def fetch(query: Query, context: Context) -> Any:
    """Search for the company, or read its record; None if there is none with that LEI."""
    accept = {"accept": "application/vnd.api+json"}
    if isinstance(query.value, WantedCompany):
        response = await context.client.get(
            f"{context.base_url}/lei-records",
            params={"filter[entity.legalName]": query.value.name, "page[size]": str(_HITS)},
            headers=accept,
            timeout=context.timeout,
        )
        return SearchResult(query.value, _data(json_answer(response)))
    response = await context.client.get(
        f"{context.base_url}/lei-records/{query.value.lei}", headers=accept, timeout=context.timeout
    )
    return json_answer(response, empty=frozenset({404}))


def _data(told: Any) -> list[dict[str, Any]]:
    if not isinstance(told, dict) or not isinstance(told.get("data"), list):  # pyright: ignore[reportUnknownMemberType]
        raise SourceError("bad_response", "unexpected_shape")
    return told["data"]  # pyright: ignore[reportUnknownVariableType]


def parse(raw: Any) -> Fields:
    """Read the result of the search, or the record."""
    if raw is None:
        return {}
    if isinstance(raw, SearchResult):
        return candidates(_candidate(raw.wanted, record["attributes"]) for record in raw.records)
    entity = _entity(raw["data"]["attributes"])
    address = entity.get("headquartersAddress") or entity["legalAddress"]
    profile = {
        "name": entity["legalName"]["name"],
        "founding_date": (entity.get("creationDate") or "")[:10],
        "status": (entity.get("status") or "").lower(),
        "address": _address(address),
        "country": named_country(entity["legalAddress"]["country"]),
        "registration_number": entity.get("registeredAs"),
        "jurisdiction": entity.get("jurisdiction"),
    }
    return {f"profile.{name}": value for name, value in profile.items() if value}


def _candidate(wanted: WantedCompany, attributes: dict[str, Any]) -> dict[str, Any] | None:
    entity = _entity(attributes)
    of_companies_house = entity["registeredAt"]["id"] in _COMPANIES_HOUSE
    number = entity.get("registeredAs")
    others: list[dict[str, Any]] = entity.get("otherNames") or []
    return candidate(
        wanted,
        entity["legalName"]["name"],
        Company(
            lei=attributes["lei"],
            companies_house=number.upper().zfill(8) if number and of_companies_house else None,
        ),
        country=named_country(entity["legalAddress"]["country"]),
        others=tuple(other["name"] for other in others),
    )


def _entity(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the entity. Some registrars write the text `NULL` for unknown values."""
    return {name: None if told == "NULL" else told for name, told in attributes["entity"].items()}


def _address(told: dict[str, Any]) -> str:
    parts = (
        *told["addressLines"],
        told.get("city"),
        told.get("region"),
        told.get("postalCode"),
        told["country"],
    )
    return ", ".join(part for part in parts if part)


_PROFILE = "name founding_date status address country registration_number jurisdiction".split()

SOURCE = RemoteSource(
    RemoteSpec(
        name="gleif",
        kind="company",
        fields=frozenset({"candidates", *(f"profile.{name}" for name in _PROFILE)}),
        licence="CC0 1.0",
        commercial="yes",
        terms="https://www.gleif.org/en/meta/lei-data-terms-of-use/",
        attribution="Global Legal Entity Identifier Foundation, https://www.gleif.org",
        evidence=Evidence(
            "https://github.com/ggravlingen/pygleif/blob/HEAD/tests/v1/fixtures/9845001B2AD43E664E58_issued.json",
            date(2026, 11, 21),
            second_hand=True,
        ),
        base_url="https://api.gleif.org/api/v1",
        timeout=6,
        ttl=86400,
        negative_ttl=86400,
        rates=(Rate(60, 60),),
        parser_version=2,
    ),
    fetch,
    parse,
    takes=lambda query: (
        query.value.domain is None if isinstance(query.value, WantedCompany) else query.value.lei is not None
    ),
    asks=ask_by("lei"),
)
