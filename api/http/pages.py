"""Public texts: with an ETag, and made once if derived from the OpenAPI document."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from fastapi import FastAPI, Request, Response

# Below this, compressing spares less than a packet.
_LEAST_COMPRESSED = 1000


def readable(
    request: Request, content: str | bytes, media_type: str, headers: dict[str, str] | None = None
) -> Response:
    """Return the content, compressed for a client that can read it so, or 304 for one that already has it."""
    raw = content.encode() if isinstance(content, str) else content
    encodings = re.findall(r"gzip(?! *; *q=0(?:\.0*)? *(?:,|$))", request.headers.get("accept-encoding", ""))
    is_compressed = bool(encodings) and len(raw) >= _LEAST_COMPRESSED
    etag = f'"{hashlib.sha256(raw).hexdigest()[:32]}{"-gzip" if is_compressed else ""}"'
    told = {
        "Cache-Control": "public, max-age=300", "ETag": etag, "Vary": "Accept-Encoding", **(headers or {})
    }  # fmt: skip
    known = {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}
    if known & {etag, "*"}:
        return Response(status_code=304, headers=told)
    if is_compressed:
        return Response(_compress(raw), media_type=media_type, headers={**told, "Content-Encoding": "gzip"})
    return Response(raw, media_type=media_type, headers=told)


@lru_cache(maxsize=128)
def _compress(raw: bytes) -> bytes:
    return gzip.compress(raw, mtime=0)


class Derived:
    """Contents derived from an application's OpenAPI document, which does not change while the service runs.

    Making the document takes half a second, so it is done once, beside the event loop.
    """

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._making = asyncio.Lock()
        self._made: dict[str, bytes] = {}

    async def get(self, name: str, make: Callable[[dict[str, Any]], str | bytes]) -> bytes:
        """Return the result of `make` for the document, made on the first call with this name.

        Args:
            name: one of a few names.
            make: receives the document.
        """
        async with self._making:
            if name not in self._made:
                made = await asyncio.to_thread(lambda: make(self._app.openapi()))
                self._made[name] = made.encode() if isinstance(made, str) else made
        return self._made[name]


def derived_of(request: Request) -> Derived:
    """Return the derived contents of the application that answers `request`."""
    return request.app.state.derived
