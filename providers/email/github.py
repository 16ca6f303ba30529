"""GitHub: the account whose public profile shows the address. A token, if set, raises their limits."""

from __future__ import annotations

from datetime import date
from typing import Any
from urllib.parse import quote

import httpx

from providers.base import (
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

_FIELDS = frozenset(
    {
        "name", "company", "location", "bio", "photo", "socials.github", "socials.twitter",
        "registered_services.services",
    }
)  # fmt: skip
_HEADERS = {"accept": "application/vnd.github+json", "x-github-api-version": "2022-11-28"}


async def fetch(query: Query, context: Context) -> Any:
    """Search for the account, then ask for its profile; None if no profile shows the address."""
    found = await _get(context, "/search/users", q=f"{query.text} in:email")
    if not found["items"]:
        return None
    profile = await _get(context, f"/users/{quote(found['items'][0]['login'], safe='')}")
    # The search matches words: only a profile that shows this very address is this person's.
    return profile if (profile["email"] or "").lower() == query.text else None


async def _get(context: Context, path: str, **params: str) -> Any:
    headers = _HEADERS | ({"authorization": f"Bearer {context.key}"} if context.key else {})
    response = await context.client.get(
        f"{context.base_url}{path}", params=params, headers=headers, timeout=context.timeout
    )
    if response.status_code == 403 and _used_up(response):
        raise SourceError("rate_limited", "http_403")
    return json_answer(response)


def _used_up(response: httpx.Response) -> bool:
    """Whether a 403 is theirs for too many requests, and not for a token that may not."""
    return response.headers.get("x-ratelimit-remaining") == "0" or "retry-after" in response.headers


def parse(raw: Any) -> Fields:
    """Read a profile. An organisation's name is nobody's."""
    if raw is None:
        return {}
    twitter = raw.get("twitter_username")  # the only one of these that need not be there
    return {
        "name": raw["name"] if raw["type"] == "User" else None,
        "company": (raw["company"] or "").strip().removeprefix("@"),
        "location": raw["location"],
        "bio": raw["bio"],
        "photo": raw["avatar_url"],
        "socials.github": raw["html_url"],
        "socials.twitter": f"https://x.com/{twitter}" if twitter else None,
        "registered_services.services": ["GitHub"],
    }


SOURCE = RemoteSource(
    RemoteSpec(
        name="github",
        kind="email",
        fields=_FIELDS,
        licence="GitHub terms: what people publish themselves",
        attribution="GitHub, https://github.com",
        evidence=Evidence(
            "https://github.com/octokit/openapi/blob/main/generated/api.github.com.json",
            date(2026, 11, 21),
        ),
        base_url="https://api.github.com",
        key="optional",
        personal=True,
        timeout=4,
        ttl=86400,
        negative_ttl=86400,
        rate=Rate(10, 60),
        parser_version=2,
    ),
    fetch,
    parse,
)
