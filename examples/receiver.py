"""A small receiver for trying webhooks out: prints each request, answers 200 or what a file says.

python examples/receiver.py [port] [answers.json]

The file has for a path its answers in order; the last one is given from then on:
{"/busy": [{"status": 503}, {"body": {"done": true}}]}
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SHOWN = ("webhook-id", "authorization")
ANSWERS: dict[str, list[dict[str, Any]]] = {}


class Receiver(BaseHTTPRequestHandler):
    """Prints what comes."""

    def do_POST(self) -> None:
        """Print the request and answer."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = [f"{name}: {self.headers[name]}" for name in SHOWN if name in self.headers]
        print("\n".join([f"{self.command} {self.path}", *headers, body.decode()]), flush=True)
        answers = ANSWERS.get(self.path.partition("?")[0], [{}])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(answer.get("status", 200))
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer.get("body", {"received": True})).encode())

    do_PUT = do_PATCH = do_GET = do_DELETE = do_POST

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: the request itself is printed instead."""


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 9000
    if len(sys.argv) > 2:
        ANSWERS.update(json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")))
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Receiver)
    except OSError as error:
        sys.exit(f"Port {port} cannot be opened ({error.strerror}). Stop an earlier receiver first: kill %1")
    server.serve_forever()
