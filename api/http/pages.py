"""Texts that anybody may read: with an ETag, and made once where they are made of the OpenAPI document."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request, Response


def readable(
    request: Request, content: str | bytes, media_type: str, headers: dict[str, str] | None = None
) -> Response:
    """The content, or 304 to who has it already."""
    raw = content.encode() if isinstance(content, str) else content
    etag = f'"{hashlib.sha256(raw).hexdigest()[:32]}"'
    told = {"Cache-Control": "public, max-age=300", "ETag": etag, **(headers or {})}
    known = {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}
    if known & {etag, "*"}:
        return Response(status_code=304, headers=told)
    return Response(raw, media_type=media_type, headers=told)


class Derived:
    """What is made of an application's OpenAPI document, which does not change while the service runs.

    The document takes half a second to make: that is spent beside the event loop, and once.
    """

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._making = asyncio.Lock()
        self._made: dict[str, bytes] = {}

    async def get(self, name: str, make: Callable[[dict[str, Any]], str | bytes]) -> bytes:
        """What `make` gives for the document; made at the first call with this name.

        Args:
            name: of one of few things.
            make: gets the document.
        """
        async with self._making:
            if name not in self._made:
                made = await asyncio.to_thread(lambda: make(self._app.openapi()))
                self._made[name] = made.encode() if isinstance(made, str) else made
        return self._made[name]


def derived_of(request: Request) -> Derived:
    """What is made of the document of the application that answers `request`."""
    return request.app.state.derived
