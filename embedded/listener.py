"""The socket on which the API accepts: one for all API processes of a stack."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from settings import ExitCode, StartError

# The bytes of an answer that the kernel buffers beyond those in transit.
_UNSENT_BYTES = 64 * 1024


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Connections wait in it while an API process restarts.

    Raises:
        StartError: if the port is taken or the host is not an address of this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise StartError(f"VEDETTE_HOST={host}: {error.strerror}", ExitCode.SETTING) from None
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Connections inherit this: a stream waits for a client that does not read before megabytes of paid
    # answers fill the kernel's buffers.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
    try:
        listener.bind(address)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise StartError(
            f"Port {port} on {host} cannot be used: {error.strerror}. Choose another one with VEDETTE_PORT.",
            ExitCode.PORT_TAKEN,
        ) from None
    return listener


def inherit_listener() -> socket.socket | None:
    """Return the listening socket that a supervisor passed as standard input, like inetd; else None.

    Standard input is empty from then on: child processes inherit it, and would hold the port after our death.
    """
    if not stat.S_ISSOCK(os.fstat(0).st_mode):
        return None
    candidate = socket.socket(fileno=os.dup(0))
    over_ip = candidate.family in (socket.AF_INET, socket.AF_INET6)
    if over_ip and candidate.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        with Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        return candidate
    candidate.close()
    return None
