"""Temporal's web pages, for this machine's browsers alone.

The pages accept any host name. So any web site could make its visitors' browsers ask them, under a name of
its own that resolves to 127.0.0.1 (DNS rebinding). They therefore listen at a random one of the 16 million
loopback addresses, where no site finds them, and 127.0.0.1 has a proxy that checks the name.
"""

from __future__ import annotations

import random
import socket
import sys
from collections.abc import Mapping

from aiohttp import ClientError, ClientSession, DummyCookieJar, web
from yarl import URL

from settings import ExitCode, StartError

_HOP_BY_HOP = {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}


class Pages:
    """The proxy, and the address behind it for the pages."""

    def __init__(self) -> None:
        if sys.platform != "linux":  # elsewhere 127.0.0.1 is the only loopback address
            raise StartError(
                "VEDETTE_TEMPORAL_UI: Temporal's pages can be shown on Linux only. Unset it; the `temporal` "
                "command shows the same, with --address as in stack.json.",
                ExitCode.SETTING,
            )
        self.host = f"127.{random.randint(1, 255)}.{random.randint(0, 255)}.{random.randint(1, 254)}"
        with socket.socket() as listener:
            listener.bind((self.host, 0))
            self.port: int = listener.getsockname()[1]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._runner: web.AppRunner | None = None
        self._session: ClientSession | None = None

    async def start(self) -> None:
        """Answer at the port of 127.0.0.1 that it holds."""
        if self._runner is not None:
            return
        self._session = ClientSession(auto_decompress=False, cookie_jar=DummyCookieJar())
        application = web.Application(client_max_size=16 * 1024**2)
        application.router.add_route("*", "/{path:.*}", self._forward)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        await web.SockSite(self._runner, self._listener).start()

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None and self._session is not None:
            await self._runner.cleanup()
            await self._session.close()
            self._runner = None
        self._listener.close()

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        ours = {self.url, self.url.replace("127.0.0.1", "localhost")}
        if {f"http://{request.host}", request.headers.get("Origin", self.url)} - ours:
            return web.Response(status=403, text=f"These pages are at {self.url}, and for that name alone.\n")
        assert self._session is not None
        target = URL(f"http://{self.host}:{self.port}{request.raw_path}", encoded=True)
        headers = _end_to_end(request.headers)
        body = request.content if request.body_exists else None
        try:
            async with self._session.request(
                request.method, target, headers=headers, data=body, allow_redirects=False
            ) as answer:
                response = web.StreamResponse(status=answer.status, headers=_end_to_end(answer.headers))
                await response.prepare(request)
                async for some in answer.content.iter_any():
                    await response.write(some)
                return response
        except ClientError:
            return web.Response(status=502, text="Temporal's pages do not answer.\n")


def _end_to_end(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers.items() if name.lower() not in _HOP_BY_HOP]
