"""A small HTTP server that answers every request with `{"ok": true}`: the other side of webhook steps.

It is as cheap as Python allows, because it shares the machine with the measured stack. Run it by itself, with
a port.
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import uvloop

_ANSWER = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{"ok":true}'


class Echo(asyncio.Protocol):
    """One connection. Requests are small and arrive whole or in two parts."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport for the answers."""
        # uvloop's transports are not subclasses of asyncio.Transport.
        self._transport, self._buffer = cast(asyncio.WriteTransport, transport), b""

    def data_received(self, data: bytes) -> None:
        """Answer when a whole request has arrived."""
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line[15:])
        if len(body) >= length:
            self._buffer = body[length:]
            self._transport.write(_ANSWER)


async def serve(port: int) -> None:
    """Serve on loopback until killed; prints the port."""
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", port)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
