"""A receiver of webhooks on this machine: each delivery is verified by its signature, and passed on."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from outbound.signing import signed_headers

_TOLERANCE_SECONDS = 300
_MOST_BYTES = 8 * 1024 * 1024
_SILENT_SECONDS = 15.0
_MOST_DIGITS = 12


@dataclass(frozen=True)
class Delivery:
    """A received request.

    Attributes:
        id: its `webhook-id`, the same for all attempts of the event.
        body: its raw bytes.
        fault: the fault of its signature; empty if it is verified.
    """

    id: str
    body: bytes
    fault: str


def fault_of(secret: str, headers: Callable[[str], str], body: bytes, now: float) -> str:
    """Return the fault of a request's signature, by Standard Webhooks; empty if it is right.

    Args:
        secret: the signing secret.
        headers: returns the value of a header, empty if it is absent.
        body: the raw bytes of the request.
        now: in Unix seconds.
    """
    message_id, moment, signatures = map(headers, ("webhook-id", "webhook-timestamp", "webhook-signature"))
    if not (message_id and moment and signatures):
        return "it is not signed"
    if not moment.isascii() or not moment.isdecimal() or len(moment) > _MOST_DIGITS:
        return "its time is none"
    right = signed_headers([secret], message_id, int(moment), body)["webhook-signature"]
    if not any(hmac.compare_digest(one.encode(), right.encode()) for one in signatures.split()):
        return "it is signed with another secret, or was changed"
    if abs(now - int(moment)) > _TOLERANCE_SECONDS:
        return "it was signed more than five minutes ago, or is to come"
    return ""


class Receiver(ThreadingHTTPServer):
    """Listens on loopback, answers 204 to verified requests, and 401 to all others."""

    daemon_threads = True

    def __init__(self, port: int, receive: Callable[[Delivery], None]) -> None:
        """Listen.

        Args:
            port: 0 for any free port.
            receive: receives each request, from several threads.
        """
        super().__init__(("127.0.0.1", port), _Handler)
        self.secret: str | None = None
        self._receive = receive

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing, because senders sometimes disconnect."""

    @property
    def url(self) -> str:
        """The address of the receiver."""
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def take(self, headers: Callable[[str], str], body: bytes) -> bool:
        """Pass a request on; return whether it is verified."""
        fault = fault_of(self.secret, headers, body, time.time()) if self.secret else "no secret is known yet"
        self._receive(Delivery(headers("webhook-id"), body, fault))
        return not fault


class _Handler(BaseHTTPRequestHandler):
    timeout = _SILENT_SECONDS

    def do_POST(self) -> None:
        """Read a request, and answer it."""
        receiver = self.server
        assert isinstance(receiver, Receiver)
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or len(length) > _MOST_DIGITS or int(length) > _MOST_BYTES:
            self._answer(413)
            return
        body = self.rfile.read(int(length))
        verified = receiver.take(lambda name: str(self.headers.get(name, "")), body)
        self._answer(204 if verified else 401)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing, because requests are printed as deliveries."""

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()
