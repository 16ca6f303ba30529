"""The socket on which the API accepts."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

from embedded.listener import listen

_INHERITING = """
import subprocess, sys
from embedded.listener import inherit_listener
listener = inherit_listener()
child = subprocess.Popen(["sleep", "60"])
print(child.pid, flush=True)
child.wait()
"""


def test_little_of_what_a_client_does_not_read_waits_outside_the_process() -> None:
    with listen("127.0.0.1", 0) as listener, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(listener.getsockname())
        connection, _ = listener.accept()
        with connection:
            connection.setblocking(False)
            assert _sent(connection) < 512 * 1024


def test_a_process_that_is_killed_holds_the_port_by_none_of_its_children() -> None:
    with listen("127.0.0.1", 0) as listener:
        host, port = listener.getsockname()
        command = [sys.executable, "-c", _INHERITING]
        process = subprocess.Popen(command, stdin=listener, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    try:
        socket.create_connection((host, port)).close()
        process.kill()
        process.wait()
        listen(host, port).close()
    finally:
        os.kill(child, signal.SIGKILL)
        process.stdout.close()


def _sent(connection: socket.socket) -> int:
    """Return how many bytes it takes until there is no more room, up to 4 MiB."""
    sent = 0
    while sent < 4 * 1024 * 1024:
        try:
            sent += connection.send(bytes(16 * 1024))
        except BlockingIOError:
            break
    return sent
