"""Hacker News: users who have posted or commented. Names are case-sensitive."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Any

from providers.sources.base import Context, Evidence, Fields, Query, RemoteSource, RemoteSpec, json_answer
from providers.username.accounts import account
from settings import Rate

_NAME = re.compile(r"[a-zA-Z0-9_-]{2,15}")
_PROFILE = "https://news.ycombinator.com/user?id="


async def fetch(query: Query, context: Context) -> Any:
    """Fetch the profile. For a missing one the service answers `null`, with status 200 or 404."""
    response = await context.client.get(f"{context.base_url}/user/{query.text}.json", timeout=context.timeout)
    if response.status_code == 200 and response.content.strip() == b"null":
        return None
    return json_answer(response, empty=frozenset({404}))


def parse(raw: Any) -> Fields:
    """Read a profile."""
    if raw is None:
        return {}
    created = datetime.fromtimestamp(raw["created"], UTC).isoformat()
    return account("Hacker News", _PROFILE + raw["id"], "news", name=raw["id"], created=created)


SOURCE = RemoteSource(
    RemoteSpec(
        name="hackernews",
        kind="username",
        fields=frozenset({"found"}),
        licence="MIT (the API)",
        terms="https://github.com/HackerNews/API",
        attribution="Hacker News, https://news.ycombinator.com",
        evidence=Evidence("https://github.com/HackerNews/API", date(2026, 11, 21)),
        base_url="https://hacker-news.firebaseio.com/v0",
        timeout=5,
        ttl=86400,
        negative_ttl=3600,
        rates=(Rate(300, 60),),
        personal=True,
    ),
    fetch,
    parse,
    takes=lambda query: _NAME.fullmatch(query.text) is not None,
)
