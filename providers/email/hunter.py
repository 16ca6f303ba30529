"""Hunter's verifier: whether mail to the address arrives. It needs a key.

Status 403 says too many at once, 429 or 402 that the plan's quota is used up, 202 that they are still
looking, 222 that the mail server let them down, and 451 that they may not say.
"""

from __future__ import annotations

from typing import Any

from outbound.response import retry_after
from providers.base import Context, Fields, Query, RemoteSource, RemoteSpec, SourceError, json_answer
from settings import Rate

_QUOTA_SECONDS = 3600.0
# `webmail` says where the mailbox is, not whether there is one.
_VALIDITY = {"valid": "valid", "invalid": "invalid", "accept_all": "risky", "disposable": "risky"}


async def fetch(query: Query, context: Context) -> Any:
    """Ask about the address; None if they may not say."""
    response = await context.client.get(
        f"{context.base_url}/email-verifier",
        params={"email": query.text},
        headers={"x-api-key": context.key or ""},
        timeout=context.timeout,
    )
    match response.status_code:
        case 202:
            raise SourceError("timeout", "still_looking")
        case 222:
            raise SourceError("error", "http_222")
        case 403:
            raise SourceError("rate_limited", "http_403", 1)
        case 402 | 429:
            raise SourceError("rate_limited", "quota", retry_after(response.headers) or _QUOTA_SECONDS)
        case _:
            return json_answer(response, empty=frozenset({451}))


def parse(raw: Any) -> Fields:
    """Read an answer."""
    if raw is None:
        return {}
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
        base_url="https://api.hunter.io/v2",
        key="required",
        personal=True,
        timeout=6,
        ttl=86400,
        negative_ttl=86400,
        rate=Rate(10, 1),
    ),
    fetch,
    parse,
)
