"""Hunter: people at a company, by the e-mail addresses that are published under its domain.

This source and `hunter` share one key.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from outbound.response import retry_after
from providers.company.identity import Company, ask_by
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

# The page sizes of paid plans and of the free one.
_MOST, _MOST_FREE = 100, 10
_QUOTA_SECONDS = 3600.0
# The pause holds for all sources of the account.
_TOO_FAST_SECONDS = 1.0


async def fetch(query: Query, context: Context) -> Any:
    """Fetch the people of the domain; fewer if the plan allows no more."""
    told = await _ask(query, context, _MOST)
    return await _ask(query, context, _MOST_FREE) if told is None else told


async def _ask(query: Query, context: Context, limit: int) -> Any:
    response = await context.client.get(
        f"{context.base_url}/domain-search",
        params={"domain": query.value.domain, "type": "personal", "limit": str(limit)},
        headers={"accept": "application/json", "x-api-key": context.key or ""},
        timeout=context.timeout,
    )
    if response.status_code == 403:  # here it means too many requests, and 401 a bad key
        raise SourceError("rate_limited", "http_403", retry_after(response.headers) or _TOO_FAST_SECONDS)
    if response.status_code == 402:
        raise SourceError("rate_limited", "quota", _QUOTA_SECONDS)
    if response.status_code == 400 and limit > _MOST_FREE and b"pagination_error" in response.content:
        return None
    return json_answer(response)


def parse(raw: Any) -> Fields:
    """Read an answer."""
    people = [_person(one) for one in raw["data"]["emails"] if one["type"] == "personal"]
    return {"results": people} if people else {}


def _person(told: dict[str, Any]) -> dict[str, Any]:
    linkedin = told.get("linkedin") or ""
    return {
        "email": told["value"],
        "name": " ".join(part for part in (told["first_name"], told["last_name"]) if part) or None,
        "role": told.get("position"),
        "linkedin": linkedin if linkedin.startswith("http") else None,
    }


SOURCE = RemoteSource(
    RemoteSpec(
        name="hunterdomain",
        kind="company",
        fields=frozenset({"results"}),
        licence="Hunter terms of service",
        terms="https://hunter.io/terms-of-service",
        attribution="Hunter, https://hunter.io",
        evidence=Evidence(
            "https://github.com/hunter-io/chatgpt-mcp/blob/HEAD/src/tools/search.ts", date(2026, 11, 21)
        ),
        base_url="https://api.hunter.io/v2",
        key="required",
        account="hunter",
        timeout=6,
        ttl=7 * 86400,
        negative_ttl=86400,
        rates=(Rate(10, 1), Rate(300, 60)),  # of the account: those of its verifier, the strictest
    ),
    fetch,
    parse,
    takes=lambda query: isinstance(query.value, Company) and query.value.domain is not None,
    asks=ask_by("domain"),
)
