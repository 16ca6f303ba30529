"""The transport of the assistant's client: httpx2 on our connections, to the operator's address alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import aiohttp
import httpx2
from yarl import URL

from outbound.faults import error_for

MAX_BYTES = 8 * 1024 * 1024
"""The most bytes of one answer of the model."""
MAX_LINE_BYTES = 512 * 1024
"""The most bytes of one of its lines: its library works through a line at once, while nothing else runs."""
_CONNECT_SECONDS = 10.0
_KEPT = frozenset({"accept", "authorization", "content-type"})


class ModelTransport(httpx2.AsyncBaseTransport):
    """Streams the answers of one address, and reaches no other.

    The model's client may be told to go elsewhere: by a redirect, or by an answer that it trusts. So the
    address is compared here, where the connection is made.
    """

    def __init__(self, session: aiohttp.ClientSession, base_url: str, stall_seconds: float) -> None:
        """Prepare.

        Args:
            session: a pool of its own.
            base_url: the operator's address of the model.
            stall_seconds: the longest time without a byte.
        """
        self._session = session
        self._origin = URL(base_url).origin()
        self._timeout = aiohttp.ClientTimeout(total=None, connect=_CONNECT_SECONDS, sock_read=stall_seconds)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, and return its answer with a body that is still to be read.

        Raises:
            httpx2.TransportError: it goes elsewhere, or there is no answer.
        """
        url = URL(str(request.url))
        if url.origin() != self._origin:
            raise httpx2.UnsupportedProtocol("The model's client may reach the operator's address alone.")
        headers = {name: value for name, value in request.headers.items() if name.lower() in _KEPT}
        content = await request.aread()
        try:
            response = await self._session.request(
                request.method, url, data=content, timeout=self._timeout, allow_redirects=False,
                headers={**headers, "Accept-Encoding": "identity"},
            )  # fmt: skip
        except TimeoutError:
            raise httpx2.ConnectTimeout("The model does not answer.") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise httpx2.ConnectError(str(error_for(error, url.raw_host))) from error
        if response.headers.get("Content-Encoding", "identity") != "identity":
            response.close()
            raise httpx2.DecodingError("The model's answer is compressed, which was not asked for.")
        told = [
            (name, response.headers[name])
            for name in ("Content-Type", "Retry-After")
            if name in response.headers
        ]
        return httpx2.Response(response.status, headers=told, stream=_Body(response), request=request)


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, read as it comes."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        size = line = 0
        try:
            async for chunk in self._response.content.iter_any():
                size += len(chunk)
                if size > MAX_BYTES:
                    raise httpx2.ReadError(f"The model's answer is larger than {MAX_BYTES} bytes.")
                line = len(chunk) - chunk.rfind(b"\n") - 1 if b"\n" in chunk else line + len(chunk)
                if line > MAX_LINE_BYTES:
                    raise httpx2.ReadError(f"A line of the model's answer exceeds {MAX_LINE_BYTES} bytes.")
                yield chunk
        except TimeoutError:
            raise httpx2.ReadTimeout("The model's answer has paused for too long.") from None
        except (aiohttp.ClientError, OSError) as error:
            raise httpx2.ReadError(str(error_for(error, self._response.url.raw_host))) from error

    async def aclose(self) -> None:
        """Close the connection."""
        self._response.close()
