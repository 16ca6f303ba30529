"""Keybase: users."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Any

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
from settings import Rate

_NAME = re.compile(r"[a-z0-9][a-z0-9_]{1,15}", re.IGNORECASE)
_INPUT_ERROR = 100


async def fetch(query: Query, context: Context) -> Any:
    """Fetch the user."""
    response = await context.client.get(
        f"{context.base_url}/user/lookup.json",
        params={"usernames": query.text.lower(), "fields": "basics"},
        timeout=context.timeout,
    )
    return json_answer(response)


def parse(raw: Any) -> Fields:
    """Read an answer: a list with the user, or with null instead. Errors come with status 200.

    Raises:
        SourceError: for an answer that is an error; `rejected`, if the name is invalid.
    """
    if raw["status"]["code"] == _INPUT_ERROR:
        raise SourceError("rejected", "input_error")
    if raw["status"]["code"] != 0:
        raise SourceError("bad_response", "api_error")
    (user,) = raw["them"]
    if user is None:
        return {}
    name = user["basics"]["username"]
    created = datetime.fromtimestamp(user["basics"]["ctime"], UTC).isoformat()
    return account("Keybase", f"https://keybase.io/{name}", "tech", name=name, created=created)


SOURCE = RemoteSource(
    RemoteSpec(
        name="keybase",
        kind="username",
        fields=frozenset({"found"}),
        licence="Keybase terms of service",
        terms="https://keybase.io/docs/terms",
        attribution="Keybase, https://keybase.io",
        evidence=Evidence("https://keybase.io/docs/api/1.0/call/user/lookup", date(2026, 11, 21)),
        base_url="https://keybase.io/_/api/1.0",
        timeout=5,
        ttl=86400,
        negative_ttl=3600,
        rates=(Rate(60, 60),),
        personal=True,
    ),
    fetch,
    parse,
    takes=lambda query: _NAME.fullmatch(query.text) is not None,
)
