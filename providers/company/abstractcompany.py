"""Abstract Company Enrichment: data about the company behind a domain."""

from __future__ import annotations

from datetime import date
from typing import Any

from providers.company.identity import Company, ask_by
from providers.ip.countries import named_country
from providers.sources import abstract
from providers.sources.base import Evidence, Fields, RemoteSource, RemoteSpec

_NAMES = {
    "profile.name": "company_name",
    "profile.domain": "domain",
    "profile.description": "description",
    "profile.founding_date": "year_founded",
    "profile.industry": "industry",
    "profile.company_type": "type",
    "profile.revenue": "annual_revenue",
    "profile.country": "country",
    "profile.logo": "logo",
    "profile.linkedin": "linkedin_url",
    "profile.twitter": "twitter_url",
    "profile.ticker": "ticker",
}
_ADDRESS = ("street_address", "city", "state", "postal_code", "country")


def parse(raw: Any) -> Fields:
    """Read an answer; for an unknown domain, everything but the domain is null."""
    if raw is None or raw["company_name"] is None:
        return {}
    texts = {field: str(raw[name]) for field, name in _NAMES.items() if raw.get(name)}
    for field in ("profile.linkedin", "profile.twitter"):
        if field in texts and "://" not in texts[field]:
            texts[field] = f"https://{texts[field]}"
    count = str(raw.get("employee_count") or "")
    return texts | {
        "profile.country": named_country(texts.get("profile.country")),
        "profile.employee_count": int(count) if count.isdigit() else None,
        "profile.address": ", ".join(str(raw[part]) for part in _ADDRESS if raw.get(part)),
        "profile.phone": next(iter(raw.get("phone_numbers") or []), None),
        "profile.sic_codes": [str(raw["sic_code"])] if raw.get("sic_code") else None,
    }


SOURCE = RemoteSource(
    RemoteSpec(
        name="abstractcompany",
        kind="company",
        fields=frozenset(
            {*_NAMES, *(f"profile.{name}" for name in ("employee_count", "address", "phone", "sic_codes"))}
        ),
        licence="Abstract API terms of service",
        terms="https://www.abstractapi.com/legal/legal",
        attribution="Abstract API, https://www.abstractapi.com",
        evidence=Evidence(
            "https://github.com/abstractapi/docs/blob/main/api-docs/api/company-enrichment.mdx",
            date(2026, 11, 21),
        ),
        base_url="https://companyenrichment.abstractapi.com/v2",
        key="required",
        account="abstractcompany",
        timeout=6,
        ttl=7 * 86400,
        negative_ttl=86400,
        rates=abstract.RATES,
        parser_version=2,
    ),
    abstract.asking("domain", lambda query: query.value.domain),
    parse,
    takes=lambda query: isinstance(query.value, Company) and query.value.domain is not None,
    asks=ask_by("domain"),
)
