"""uvicorn's HTTP protocol with limits of our own, and with problem documents for invalid HTTP."""

from __future__ import annotations

import asyncio
import os

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from api.context import known_context
from api.http.catalogue import ProblemReport, problem_body

MAX_HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 30.0
_PIECE_BYTES = 16 * 1024
_TOO_LONG = "The request line and headers are too long."
_UNKNOWN_CODING = "The only transfer coding of a body is chunked."


class HeadTooLong(Exception):
    """A request's line and headers, or its trailers, exceed the limit."""


class UnknownCoding(Exception):
    """A body has a transfer coding beside `chunked`, which the parser would ignore."""


class BoundedHttp(HttpToolsProtocol):
    """Limits a request's line and headers to 64 KiB and 30 seconds; uvicorn limits neither.

    The parser passes on whole headers only, without the position of a head in a segment. So both are counted:
    the bytes passed on, and the bytes since it last passed on anything that is not part of a head. The
    trailers after a chunked body count as a head of their own.

    Pipelined requests are answered in order, also if an invalid one follows. uvicorn answers that at once,
    and tells only the newest request that the client has left: those before it write to a closed connection.
    """

    _head_bytes = 0
    _bytes_since_end = 0
    _ended = False
    _in_head = False
    _in_body = False
    _running: RequestResponseCycle | None = None
    # What is wrong with the request that is to be refused after those before it.
    _refusal: str | None = None
    _has_unknown_coding = False
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start waiting for the first request."""
        super().connection_made(transport)  # pyright: ignore[reportArgumentType]
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting, and cancel a request without an answer; an answer that has begun ends by itself."""
        self._stop_waiting()
        super().connection_lost(exc)
        self.pipeline.clear()
        running = self._running
        if running is None or running.response_complete:
            return
        running.disconnected = True
        running.message_event.set()
        if not running.response_started and (context := known_context(running.scope)) is not None:
            context.end_unanswered()

    def data_received(self, data: bytes) -> None:
        """Process the data in pieces, so that a head exceeds the limit by at most one piece."""
        while data and self._refusal is None and not self.transport.is_closing():
            piece, data = data[:_PIECE_BYTES], data[_PIECE_BYTES:]
            self._ended = False
            super().data_received(piece)
            self._bytes_since_end = 0 if self._ended else self._bytes_since_end + len(piece)
            if self._bytes_since_end > MAX_HEAD_BYTES and not self.transport.is_closing():
                self.send_400_response(_TOO_LONG)

    def on_message_begin(self) -> None:
        """Start the head of a request."""
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        if self._head_timer is None:
            self._wait_for_head()

    def on_url(self, url: bytes) -> None:
        """Count a part of the request line."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header; trailers are only counted, because nothing reads them."""
        self._count(len(name) + len(value) + len(": \r\n"))
        if not self._in_head:
            return
        if name.lower() == b"transfer-encoding" and value.strip().lower() != b"chunked":
            self._has_unknown_coding = True
            raise UnknownCoding
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """End the head of a request."""
        self._in_head, self._ended, self._head_bytes = False, True, 0
        self._in_body = True
        self._stop_waiting()
        super().on_headers_complete()
        if not self.pipeline:
            self._running = self.cycle

    def on_chunk_header(self) -> None:
        """Start a part of a chunked body, or its trailers."""
        self._ended = True

    def on_body(self, body: bytes) -> None:
        """Start a part of the body."""
        self._ended = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._ended, self._in_body = True, False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Continue with the next request; refuse an invalid one when it is the next."""
        if self.pipeline:
            self._running = self.pipeline[-1][0]
        elif self._refusal is not None and not self.transport.is_closing():
            self._refuse(self._refusal)
        super().on_response_complete()

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES:
            raise HeadTooLong

    def send_400_response(self, msg: str) -> None:
        """Answer an invalid request after those before it, and close the connection."""
        if self._head_bytes > MAX_HEAD_BYTES:  # uvicorn only knows that the parser stopped
            msg = _TOO_LONG
        elif self._has_unknown_coding:
            msg = _UNKNOWN_CODING
        self._stop_waiting()
        if self._others_come_first():
            self._refusal = msg
        else:
            self._refuse(msg)

    def _others_come_first(self) -> bool:
        """Return whether requests before the invalid one have no answer yet; unqueue the invalid one."""
        if self._in_body:
            if not self.pipeline:
                return False
            self.pipeline.popleft()
        return self._running is not None and not self._running.response_complete

    def _refuse(self, msg: str) -> None:
        request_id = os.urandom(12).hex()
        problem = ProblemReport(400, "bad_http", msg)
        document = problem_body(problem, self.app_state["address"], instance="", request_id=request_id)
        body = orjson.dumps(document)
        head = (
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n"
            f"content-length: {len(body)}\r\nx-request-id: {request_id}\r\nconnection: close\r\n\r\n"
        )
        self.logger.warning("bad_http: %s request_id=%s", msg, request_id)
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _wait_for_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.close()
