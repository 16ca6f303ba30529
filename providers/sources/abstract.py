"""Common parts of Abstract's products: their requests and the meaning of their statuses.

Each product has a key of its own. Status 422 means that the plan's quota is used up; 204, which only IP
Intelligence documents, means no data. An answer has only the blocks that the plan includes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from providers.sources.base import Context, Query, SourceError, json_answer
from settings import Rate

RATES = (Rate(1, 1),)
"""Rates of the free plans; paid plans have more."""

_QUOTA_SECONDS = 3600.0


def asking(parameter: str, value: Callable[[Query], str]) -> Callable[[Query, Context], Awaitable[Any]]:
    """Return a `fetch` that asks about one value of the query.

    It returns None if the vendor has no data on it.
    """

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
    """Return a block of an answer, empty if the plan does not include it."""
    return raw.get(name) or {}
