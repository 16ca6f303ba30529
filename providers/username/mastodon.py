"""Mastodon: accounts at mastodon.social, or at the server that the operator's base URL names."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from providers.sources.base import Evidence, Fields, RemoteSpec
from providers.sources.rest import Get, rest
from providers.username.accounts import account
from settings import Rate

_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,28}[a-z0-9_])?", re.IGNORECASE)


def parse(raw: Any) -> Fields:
    """Read an account."""
    return account("Mastodon", raw["url"], "social", name=raw["acct"], created=raw["created_at"])


SOURCE = rest(
    RemoteSpec(
        name="mastodon",
        kind="username",
        fields=frozenset({"found"}),
        licence="terms of the server",
        attribution="Mastodon, https://mastodon.social",
        evidence=Evidence("https://docs.joinmastodon.org/methods/accounts/#lookup", date(2026, 11, 21)),
        base_url="https://mastodon.social",
        timeout=5,
        ttl=86400,
        negative_ttl=3600,
        rates=(Rate(300, 300),),
        personal=True,
    ),
    Get(path="/api/v1/accounts/lookup", params={"acct": "{query}"}, statuses={404: "empty"}),
    parse,
    takes=lambda query: _NAME.fullmatch(query.text) is not None,
)
