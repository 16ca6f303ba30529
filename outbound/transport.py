"""The transport of providers' clients: httpx on exchanges of ours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import httpx

from outbound.response import Answer

_SECONDS = 10.0
_MAX_BYTES = 8 * 1024 * 1024

Exchange = Callable[[httpx.Request, float, int], Awaitable[Answer]]
"""Sends a request and reads the whole answer, within a number of seconds and of bytes."""


class Transport(httpx.AsyncBaseTransport):
    """Reads the limits of an exchange from the request's `extensions`: its read timeout, and `max_bytes`."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request.

        Raises:
            OutboundError: any error of the exchange.
        """
        await request.aread()
        timeout: dict[str, float | None] = request.extensions.get("timeout", {})
        max_bytes: int = request.extensions.get("max_bytes", _MAX_BYTES)
        answer = await self._exchange(request, timeout.get("read") or _SECONDS, max_bytes)
        return httpx.Response(answer.status, headers=answer.headers, content=answer.body, request=request)
