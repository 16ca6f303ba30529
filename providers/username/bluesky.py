"""Bluesky: accounts at bsky.social, or under a domain of their own when the name is one."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import orjson

from providers.sources.base import Context, Evidence, Fields, Query, RemoteSource, RemoteSpec, json_answer
from providers.username.accounts import account
from settings import Rate

_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
# https://atproto.com/specs/handle: a top-level domain begins with a letter; reserved ones are excluded.
_NOBODYS = r"(?:alt|arpa|example|internal|invalid|local|localhost|onion|test)\Z"
_HANDLE = re.compile(rf"({_LABEL}\.)+(?!{_NOBODYS})[a-z]([a-z0-9-]{{0,61}}[a-z0-9])?")
_LONGEST = 253
_HIDDEN = frozenset({"AccountTakedown", "AccountDeactivated"})


async def fetch(query: Query, context: Context) -> Any:
    """Fetch the profile; None if none is shown, which the service reports with status 400."""
    response = await context.client.get(
        f"{context.base_url}/xrpc/app.bsky.actor.getProfile",
        params={"actor": _handle(query.text)},
        timeout=context.timeout,
    )
    if response.status_code == 400 and _not_shown(response.content):
        return None
    return json_answer(response)


def _handle(name: str) -> str:
    return (name if "." in name else f"{name}.bsky.social").lower()


def _is_handle(text: str) -> bool:
    return len(text) <= _LONGEST and _HANDLE.fullmatch(text) is not None


def _not_shown(content: bytes) -> bool:
    """Return whether the account does not exist, was suspended, or was deactivated by its owner."""
    try:
        told = orjson.loads(content)
        return told["message"] == "Profile not found" or told["error"] in _HIDDEN
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return False


def parse(raw: Any) -> Fields:
    """Read a profile."""
    if raw is None:
        return {}
    url = f"https://bsky.app/profile/{raw['handle']}"
    return account("Bluesky", url, "social", name=raw["handle"], created=raw.get("createdAt"))


SOURCE = RemoteSource(
    RemoteSpec(
        name="bluesky",
        kind="username",
        fields=frozenset({"found"}),
        licence="Bluesky terms of service",
        terms="https://bsky.social/about/support/tos",
        attribution="Bluesky, https://bsky.app",
        evidence=Evidence(
            "https://github.com/bluesky-social/atproto/blob/HEAD/lexicons/app/bsky/actor/getProfile.json",
            date(2026, 11, 21),
        ),
        base_url="https://public.api.bsky.app",
        timeout=5,
        ttl=86400,
        negative_ttl=3600,
        rates=(Rate(300, 60),),
        personal=True,
    ),
    fetch,
    parse,
    takes=lambda query: _is_handle(_handle(query.text)),
)
