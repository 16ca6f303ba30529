"""A small receiver for trying webhooks out: prints each request, answers 200.

python examples/receiver.py [port]
"""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SHOWN = ("webhook-id", "authorization")


class Receiver(BaseHTTPRequestHandler):
    """Prints what comes."""

    def do_POST(self) -> None:
        """Print the request and answer."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = [f"{name}: {self.headers[name]}" for name in SHOWN if name in self.headers]
        print("\n".join([f"{self.command} {self.path}", *headers, body.decode()]), flush=True)
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"received": true}')

    do_PUT = do_PATCH = do_GET = do_DELETE = do_POST

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: the request itself is printed instead."""


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 9000
    ThreadingHTTPServer(("127.0.0.1", port), Receiver).serve_forever()
