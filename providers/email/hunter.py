"""Hunter's verifier: whether mail to the address arrives. It needs a key.

Status 403 says too many at once, 429 or 402 that the plan's quota is used up, 202 that they are still
looking, 222 that the mail server let them down, and 451 that they may not say. Asking again while they are
still looking counts as the same request.
"""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any

import httpx

from outbound.response import retry_after
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

_QUOTA_SECONDS = 3600.0
_AGAIN_SECONDS = 1.0
# `webmail` says where the mailbox is, not whether there is one; `accept_all`, that the domain takes mail for
# every name, so that nobody can tell.
_VALIDITY = {"valid": "valid", "invalid": "invalid", "accept_all": "risky", "disposable": "risky"}


async def fetch(query: Query, context: Context) -> Any:
    """Ask about the address, until they know."""
    while (response := await _ask(query, context)).status_code == 202:
        await asyncio.sleep(_AGAIN_SECONDS)
    match response.status_code:
        case 222:
            raise SourceError("error", "http_222")
        case 403:
            raise SourceError("rate_limited", "http_403", 1)
        case 402 | 429:
            raise SourceError("rate_limited", "quota", retry_after(response.headers) or _QUOTA_SECONDS)
        case _:
            return json_answer(response)


async def _ask(query: Query, context: Context) -> httpx.Response:
    return await context.client.get(
        f"{context.base_url}/email-verifier",
        params={"email": query.text},
        headers={"x-api-key": context.key or ""},
        timeout=context.timeout,
    )


def parse(raw: Any) -> Fields:
    """Read an answer."""
    found = raw["data"]
    return {
        "validity": _VALIDITY.get(found["status"]),
        "mx_found": found["mx_records"],
        "is_disposable": found["disposable"],
        "is_free_provider": found["webmail"],
    }


SOURCE = RemoteSource(
    RemoteSpec(
        name="hunter",
        kind="email",
        fields=frozenset({"validity", "mx_found", "is_disposable", "is_free_provider"}),
        licence="Hunter terms of service",
        attribution="Hunter, https://hunter.io",
        evidence=Evidence("https://hunter.io/api-documentation/v2", date(2026, 11, 21)),
        base_url="https://api.hunter.io/v2",
        key="required",
        account="hunter",
        personal=True,
        timeout=22,  # a verification takes up to 20 s; the lookup does not wait for that, the next one has it
        ttl=86400,
        negative_ttl=86400,
        rate=Rate(5, 1),  # of the account: 300 verifications a minute
    ),
    fetch,
    parse,
)
