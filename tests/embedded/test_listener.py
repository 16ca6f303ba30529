"""The socket on which the API accepts."""

from __future__ import annotations

import socket

from embedded.listener import listen


def test_little_of_what_a_client_does_not_read_waits_outside_the_process() -> None:
    with listen("127.0.0.1", 0) as listener, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(listener.getsockname())
        connection, _ = listener.accept()
        with connection:
            connection.setblocking(False)
            assert _sent(connection) < 512 * 1024


def _sent(connection: socket.socket) -> int:
    """Return how many bytes it takes until there is no more room, up to 4 MiB."""
    sent = 0
    while sent < 4 * 1024 * 1024:
        try:
            sent += connection.send(bytes(16 * 1024))
        except BlockingIOError:
            break
    return sent
