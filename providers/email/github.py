"""GitHub: the accounts whose public profiles show the address. A token, if set, raises the limits."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx

from providers.email import people
from providers.sources.base import (
    Context,
    Evidence,
    Fields,
    Query,
    RemoteSource,
    RemoteSpec,
    SourceError,
    Unsure,
    json_answer,
)
from settings import Rate

_FIELDS = frozenset(
    {
        "name", "company", "location", "bio", "photo", "socials.github", "socials.twitter",
        "registered_services.services", people.OTHERS,
    }
)  # fmt: skip
_MOST_READ = 10
_GONE = frozenset({404})
_HEADERS = {"accept": "application/vnd.github+json", "x-github-api-version": "2022-11-28"}


class SearchResult(NamedTuple):
    """The profiles that show the address, in the order of the search; and whether these are all."""

    profiles: list[dict[str, Any]]
    complete: bool


async def fetch(query: Query, context: Context) -> SearchResult:
    """Search for accounts, then read the profiles of the hits.

    The search matches words, so only profiles that show exactly this address are kept.
    """
    told = await _get(context, "/search/users", q=f"{query.text} in:email")
    logins = [hit["login"] for hit in told["items"]][:_MOST_READ]
    profiles = await asyncio.gather(*(_profile(context, login) for login in logins))
    exact = [one for one in profiles if one and (one["email"] or "").lower() == query.text]
    return SearchResult(exact, told["total_count"] <= len(logins) and not told["incomplete_results"])


async def _profile(context: Context, login: str) -> Any:
    """Read a profile; None if it was deleted meanwhile."""
    return await _get(context, f"/users/{quote(login, safe='')}", _GONE)


async def _get(context: Context, path: str, empty: frozenset[int] = frozenset(), **params: str) -> Any:
    headers = _HEADERS | ({"authorization": f"Bearer {context.key}"} if context.key else {})
    response = await context.client.get(
        f"{context.base_url}{path}", params=params, headers=headers, timeout=context.timeout
    )
    if response.status_code == 403 and _used_up(response):
        raise SourceError("rate_limited", "http_403")
    return json_answer(response, empty=empty)


def _used_up(response: httpx.Response) -> bool:
    """Return whether a 403 is for too many requests, and not for a token without permission."""
    return response.headers.get("x-ratelimit-remaining") == "0" or "retry-after" in response.headers


def parse(found: SearchResult) -> Fields:
    """Read the profiles: the first, completed from those of the same name. Others are other people's.

    Organisations count only if no user shows the address.
    """
    if not found.profiles:
        return {} if found.complete else dict.fromkeys(_FIELDS, Unsure())
    users = [one for one in found.profiles if one["type"] == "User"]
    first, *others = map(_fields, users or found.profiles[:1])
    names = [name] if (name := people.full_name(first)) else []
    strangers: list[dict[str, Any]] = []
    for fields in others:
        name = people.full_name(fields)
        if name and names and people.agree(name, names):
            names.append(name)
            first = {path: first[path] or value for path, value in fields.items()}
        else:
            strangers.append(people.person("github", fields))
    return first | {people.OTHERS: (strangers or None) if found.complete else Unsure(strangers or None)}


def _fields(profile: dict[str, Any]) -> Fields:
    """Read a profile. An organisation's name is not a person's."""
    twitter = profile.get("twitter_username")  # the only optional one of these
    return {
        "name": profile["name"] if profile["type"] == "User" else None,
        "company": (profile["company"] or "").strip().removeprefix("@"),
        "location": profile["location"],
        "bio": profile["bio"],
        "photo": profile["avatar_url"],
        "socials.github": profile["html_url"],
        "socials.twitter": f"https://x.com/{twitter}" if twitter else None,
        "registered_services.services": ["GitHub"],
    }


SOURCE = RemoteSource(
    RemoteSpec(
        name="github",
        kind="email",
        fields=_FIELDS,
        licence="GitHub terms: what people publish themselves",
        terms="https://docs.github.com/site-policy/github-terms/github-terms-of-service",
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
        rates=(Rate(10, 60),),
        parser_version=3,
    ),
    fetch,
    parse,
)
