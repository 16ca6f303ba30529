"""Clients of the MCP server: the SDK's, over real HTTP, of either generation of the protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import orjson
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

MODES = ["auto", "legacy"]
"""The protocol of 2026-07-28, which has no sessions, and the one before it."""


@asynccontextmanager
async def connected(url: str, secret: str, mode: str = "auto", **headers: str) -> AsyncGenerator[Client]:
    """A client that sends this key."""
    sent = {"Authorization": f"Bearer {secret}", **headers}
    # Nothing here is TLS, and to read who is trusted takes 40 ms.
    async with httpx2.AsyncClient(headers=sent, timeout=60, trust_env=False, verify=False) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


def text_of(result: CallToolResult) -> str:
    """Return what a model reads of a result."""
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


class Agent:
    """Calls tools and expects them to answer, or to refuse; each call is a client of its own."""

    def __init__(self, url: str, secret: str, mode: str = "auto") -> None:
        self._url, self._secret, self._mode = url, secret, mode

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return what a tool answers; the text and the structure of it are the same."""
        result = await self.result(tool, **arguments)
        assert not result.is_error, text_of(result)
        assert result.structured_content == orjson.loads(text_of(result))
        return result.structured_content

    async def refused(self, tool: str, **arguments: Any) -> str:
        """Return what a tool says that does not do it."""
        result = await self.result(tool, **arguments)
        assert result.is_error, text_of(result)
        return text_of(result)

    async def result(self, tool: str, **arguments: Any) -> CallToolResult:
        """Whatever a tool answers."""
        async with connected(self._url, self._secret, self._mode) as client:
            result = await client.call_tool(tool, arguments)
        assert isinstance(result, CallToolResult)
        return result
