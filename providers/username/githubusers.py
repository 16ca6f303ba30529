"""GitHub: users and organisations. A key (or that of the source `github`) raises the limit of 60 an hour."""

from __future__ import annotations

import re
import time
from datetime import date
from typing import Any

import httpx

from outbound.response import retry_after
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
from providers.username.accounts import account

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.IGNORECASE)
_LONGEST = 39


async def fetch(query: Query, context: Context) -> Any:
    """Fetch the profile; None if there is none.

    Raises:
        SourceError: `rate_limited`, also when GitHub answers 403 to too many requests.
    """
    headers = {"accept": "application/vnd.github+json", "x-github-api-version": "2022-11-28"}
    if context.key:
        headers["authorization"] = f"Bearer {context.key}"
    response = await context.client.get(
        f"{context.base_url}/users/{query.text}", headers=headers, timeout=context.timeout
    )
    if response.status_code in (403, 429) and _too_many(response):
        raise SourceError("rate_limited", f"http_{response.status_code}", _wait(response))
    return json_answer(response, empty=frozenset({404}))


def _too_many(response: httpx.Response) -> bool:
    """Return whether a refusal is for too many requests, and not for a token without permission."""
    return response.headers.get("x-ratelimit-remaining") == "0" or "retry-after" in response.headers


def _wait(response: httpx.Response) -> float | None:
    """Return the seconds that GitHub asks to wait, from either header, or None."""
    reset = response.headers.get("x-ratelimit-reset", "")
    until = max(1.0, int(reset) - time.time()) if reset.isdecimal() else None
    return retry_after(response.headers) or until


def parse(raw: Any) -> Fields:
    """Read a profile."""
    if raw is None:
        return {}
    return account("GitHub", raw["html_url"], "coding", name=raw["login"], created=raw["created_at"])


SOURCE = RemoteSource(
    RemoteSpec(
        name="githubusers",
        kind="username",
        fields=frozenset({"found"}),
        licence="GitHub terms of service",
        terms="https://docs.github.com/site-policy/github-terms/github-terms-of-service",
        attribution="GitHub, https://github.com",
        evidence=Evidence("https://docs.github.com/rest/users/users#get-a-user", date(2026, 11, 21)),
        base_url="https://api.github.com",
        key="optional",
        account="github",
        timeout=5,
        ttl=86400,
        negative_ttl=3600,
        personal=True,
    ),
    fetch,
    parse,
    takes=lambda query: len(query.text) <= _LONGEST and _NAME.fullmatch(query.text) is not None,
)
