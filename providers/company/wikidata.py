"""Wikidata: data about companies, and their ids in registers.

Searched by name; a hit counts if its item is a company. For a domain, the hits with that website count. The
operator's key, if set, is the contact address that the Wikimedia Foundation asks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any, cast

from providers.company import claims
from providers.company.contact import user_agent
from providers.company.identity import (
    Company,
    WantedCompany,
    ask_by,
    candidate,
    candidates,
    find_registered_domain,
    likeness,
)
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

_HITS, _READ = 10, 5
_WEBSITE, _LEI, _CIK, _COMPANIES_HOUSE = "P856", "P1278", "P5531", "P2622"
_INDUSTRY, _EXCHANGE, _TICKER, _LEGAL_FORM, _SEAT = "P452", "P414", "P249", "P1454", "P159"
_COUNTRY, _FOUNDED, _DISSOLVED, _EMPLOYEES, _REVENUE = "P17", "P571", "P576", "P1128", "P2139"
_LOGO, _LINKEDIN, _TWITTER, _PHONE, _ADDRESS = "P154", "P4264", "P2002", "P1329", "P6375"
_OFFICERS = {"P169": "chief executive officer", "P488": "chairperson", "P3320": "board member"}
_OWNER = "P127"
# Only items of companies have these.
_OF_COMPANIES = (_LEI, _CIK, _COMPANIES_HOUSE, _INDUSTRY, _EXCHANGE, _LEGAL_FORM, _LINKEDIN, "P169")
_NAMED = (_INDUSTRY, _LEGAL_FORM, _COUNTRY, _SEAT, _OWNER, *_OFFICERS)
_MOST_LABELS = 50
# Labels that are the same in all languages exist under `mul` alone, such as most company names.
_LANGUAGES = ("en", "mul")


@dataclass(frozen=True)
class SearchResult:
    """The items that a search returned."""

    wanted: WantedCompany
    entities: dict[str, Any]


@dataclass(frozen=True)
class ItemData:
    """One item, and the labels of the items that it refers to."""

    entity: dict[str, Any] | None
    labels: dict[str, str]


async def fetch(query: Query, context: Context) -> SearchResult | ItemData:
    """Search for the company, or read its item."""
    if isinstance(query.value, WantedCompany):
        return await _search(query.value, context)
    told = await _entities([query.value.wikidata], "labels|descriptions|claims", context)
    entity = next(
        iter(told.values()), {"missing": ""}
    )  # under another id, if it was merged into another item
    if "missing" in entity:
        return ItemData(None, {})
    named = list(dict.fromkeys(_list_named_items(entity)))[:_MOST_LABELS]
    others = await _entities(named, "labels", context) if named else {}
    labels = {one: _label(other) for one, other in others.items()}
    return ItemData(entity, {one: label for one, label in labels.items() if label})


async def _search(wanted: WantedCompany, context: Context) -> SearchResult:
    told = await _ask(
        context,
        action="wbsearchentities",
        search=wanted.name,
        language="en",
        uselang="en",
        type="item",
        limit=str(_HITS),
    )
    hits = [
        hit["id"]
        for hit in _part(told, "search")
        if wanted.domain or likeness(wanted.name, hit.get("label", ""), tuple(_list_matched_names(hit)))
    ]
    props = "labels|aliases|descriptions|claims"
    return SearchResult(wanted, await _entities(hits[:_READ], props, context) if hits else {})


def _list_matched_names(hit: dict[str, Any]) -> list[str]:
    return [hit.get("match", {}).get("text", ""), *hit.get("aliases", [])]


async def _entities(ids: list[str], props: str, context: Context) -> dict[str, Any]:
    told = await _ask(
        context, action="wbgetentities", ids="|".join(ids), props=props, languages="|".join(_LANGUAGES)
    )
    return _part(told, "entities")


def _part(told: dict[str, Any], name: str) -> Any:
    if name not in told:
        raise SourceError("bad_response", "unexpected_shape")
    return told[name]


async def _ask(context: Context, **parameters: str) -> dict[str, Any]:
    response = await context.client.get(
        f"{context.base_url}/w/api.php",
        params={**parameters, "format": "json"},
        headers=user_agent(context),
        timeout=context.timeout,
    )
    told: Any = json_answer(response)
    if not isinstance(told, dict):
        raise SourceError("bad_response", "not_an_object")
    answer = cast("dict[str, Any]", told)
    code = answer.get("error", {}).get("code")
    if code in ("ratelimited", "maxlag"):
        raise SourceError("rate_limited", code)
    if code is not None:
        raise SourceError("bad_response", "api_error")
    return answer


def parse(raw: SearchResult | ItemData) -> Fields:
    """ItemData the search results, or the item."""
    if isinstance(raw, ItemData):
        return _profile(raw.entity, raw.labels) if raw.entity else {}
    return candidates(_candidate(raw.wanted, entity) for entity in raw.entities.values())


def _candidate(wanted: WantedCompany, entity: dict[str, Any]) -> dict[str, Any] | None:
    if not any(claims.statements(entity, name) for name in _OF_COMPANIES):
        return None
    known = entity.get("aliases", {})
    aliases = [alias["value"] for language in _LANGUAGES for alias in known.get(language, [])]
    ids = Company(
        wikidata=entity["id"],
        lei=claims.first(entity, _LEI),
        cik=_pad_number(claims.first(entity, _CIK), 10),
        companies_house=_pad_number(claims.first(entity, _COMPANIES_HOUSE), 8),
        domain=_domain(entity),
    )
    return candidate(
        wanted,
        _label(entity) or entity["id"],
        ids,
        description=_description(entity),
        others=tuple(aliases),
    )


def _pad_number(number: str | None, length: int) -> str | None:
    return number.upper().zfill(length) if number else None


def _label(entity: dict[str, Any]) -> str | None:
    labels = entity.get("labels", {})
    return next((labels[language]["value"] for language in _LANGUAGES if language in labels), None)


def _description(entity: dict[str, Any]) -> str | None:
    return entity.get("descriptions", {}).get("en", {}).get("value")


def _domain(entity: dict[str, Any]) -> str | None:
    website = claims.first(entity, _WEBSITE)
    return find_registered_domain(website.partition("://")[2].partition("/")[0]) if website else None


def _list_named_items(entity: dict[str, Any]) -> list[str]:
    """Return the items whose labels are needed, with the currency of the revenue."""
    currency = _currency(claims.latest(entity, _REVENUE))
    found = [one for name in _NAMED for one in claims.items(entity, name)]
    return [currency, *found] if currency else found


def _currency(amount: dict[str, Any] | None) -> str | None:
    return amount["unit"].rpartition("/")[2] if amount and amount["unit"] != "1" else None


def _profile(entity: dict[str, Any], labels: dict[str, str]) -> Fields:
    def find_label(name: str) -> str | None:
        return next((labels[one] for one in claims.items(entity, name) if one in labels), None)

    logo, linkedin = claims.first(entity, _LOGO), claims.first(entity, _LINKEDIN)
    twitter = claims.first(entity, _TWITTER)
    employees = claims.latest(entity, _EMPLOYEES)
    address = claims.first(entity, _ADDRESS)
    profile = {
        "name": _label(entity),
        "domain": _domain(entity),
        "description": _description(entity),
        "founding_date": claims.date(claims.first(entity, _FOUNDED)),
        "industry": find_label(_INDUSTRY),
        "company_type": find_label(_LEGAL_FORM),
        "status": "dissolved" if claims.statements(entity, _DISSOLVED) else None,
        "employee_count": round(float(employees["amount"])) if employees else None,
        "revenue": _revenue(claims.latest(entity, _REVENUE), labels),
        "address": address["text"] if address else find_label(_SEAT),
        "country": named_country(find_label(_COUNTRY)),
        "phone": claims.first(entity, _PHONE),
        "website": claims.first(entity, _WEBSITE),
        "logo": f"https://commons.wikimedia.org/wiki/Special:FilePath/{logo}".replace(" ", "_")
        if logo
        else None,
        "linkedin": f"https://www.linkedin.com/company/{linkedin}" if linkedin else None,
        "twitter": f"https://x.com/{twitter}" if twitter else None,
        "ticker": _ticker(entity),
        "officers": _officers(entity, labels),
        "shareholders": _owners(entity, labels),
    }
    return {f"profile.{name}": value for name, value in profile.items() if value}


def _revenue(amount: dict[str, Any] | None, labels: dict[str, str]) -> str | None:
    if amount is None:
        return None
    currency = labels.get(_currency(amount) or "")
    return " ".join(part for part in (amount["amount"].lstrip("+"), currency) if part)


def _ticker(entity: dict[str, Any]) -> str | None:
    listings = claims.statements(entity, _EXCHANGE)
    symbols = (claims.qualifier(listing, _TICKER) for listing in listings)
    return next((symbol for symbol in symbols if symbol), claims.first(entity, _TICKER))


def _officers(entity: dict[str, Any], labels: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {"name": labels[person], "role": role, "appointed_on": claims.start(statement), "nationality": None}
        for name, role in _OFFICERS.items()
        for statement in claims.statements(entity, name)
        if (person := statement["mainsnak"]["datavalue"]["value"]["id"]) in labels
    ]


def _owners(entity: dict[str, Any], labels: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "name": labels[owner],
            "natures_of_control": [],
            "nationality": None,
            "notified_on": claims.start(statement),
        }
        for statement in claims.statements(entity, _OWNER)
        if (owner := statement["mainsnak"]["datavalue"]["value"]["id"]) in labels
    ]


_PROFILE = (
    "name domain description founding_date industry company_type status employee_count revenue address"
    " country phone website logo linkedin twitter ticker officers shareholders"
).split()

SOURCE = RemoteSource(
    RemoteSpec(
        name="wikidata",
        kind="company",
        fields=frozenset({"candidates", *(f"profile.{name}" for name in _PROFILE)}),
        licence="CC0 1.0",
        commercial="yes",
        terms="https://www.wikidata.org/wiki/Wikidata:Licensing",
        attribution="Wikidata, https://www.wikidata.org",
        evidence=Evidence(
            "https://github.com/wikimedia/mediawiki-extensions-Wikibase/blob/master/docs/topics/json.md",
            date(2026, 11, 21),
        ),
        base_url="https://www.wikidata.org",
        key="optional",
        account="wikidata",
        timeout=6,
        ttl=7 * 86400,
        negative_ttl=86400,
        rates=(Rate(60, 60),),
        parser_version=2,
    ),
    fetch,
    parse,
    takes=lambda query: isinstance(query.value, WantedCompany) or query.value.wikidata is not None,
    asks=ask_by("wikidata"),
)
