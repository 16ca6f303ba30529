"""What Abstract's products share: how they are asked, and what their statuses mean.

Each product has a key of its own. Status 422 says that the plan's quota is used up; 204, which IP
Intelligence alone documents, that there is no data. An answer has only the blocks that the plan includes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from providers.sources.base import Context, Query, SourceError, json_answer
from settings import Rate

RATES = (Rate(1, 1),)
"""Of the free plans; who pays has more."""

_QUOTA_SECONDS = 3600.0


def asking(parameter: str, value: Callable[[Query], str]) -> Callable[[Query, Context], Awaitable[Any]]:
    """A `fetch` that asks about one value of the query; None if they have no data on it."""

    async def fetch(query: Query, context: Context) -> Any:
        response = await context.client.get(
            f"{context.base_url}/",
            params={"api_key": context.key or "", parameter: value(query)},
            timeout=context.timeout,
        )
        if response.status_code == 204:
            return None
        if response.status_code == 422:
            raise SourceError("rate_limited", "quota", _QUOTA_SECONDS)
        return json_answer(response)

    return fetch


def block(raw: Any, name: str) -> dict[str, Any]:
    """A block of an answer; empty where the plan does not include it."""
    return raw.get(name) or {}
