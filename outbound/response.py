"""The response to an outgoing request, read within limits."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import aiohttp

from outbound.errors import BadResponse, TooLarge
from outbound.memory import BodyCost, Reservation

_PIECE_BYTES = 64 * 1024
# The assumed total length of a body of unknown length, as a multiple of the bytes so far.
_GROWTH = 4


@dataclass(frozen=True)
class Answer:
    """A complete response.

    Attributes:
        status: the HTTP status code.
        headers: lower-case names; repeated ones are joined by a comma.
        body: the decompressed bytes.
        truncated: whether `body` was cut at the limit (only when the caller asked to cut).
        url: the address of the answer, after redirects.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    truncated: bool
    url: str

    def retry_after(self) -> float | None:
        """Return the `Retry-After` header in seconds from now, or None if absent or unreadable."""
        return retry_after(self.headers)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the `retry-after` of headers in seconds from now; None if absent or unreadable."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def read_headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    """Return the response's headers, without those of the encoding that `read_body` undoes."""
    found: dict[str, str] = {}
    for raw_name, raw_value in response.raw_headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name not in ("content-encoding", "content-length", "transfer-encoding"):
            found[name] = f"{found[name]}, {value}" if name in found else value
    return found


@dataclass(frozen=True)
class ReadLimits:
    """The limits for reading a body.

    Attributes:
        max_bytes: the most bytes, raw and decompressed.
        truncate: whether a longer body is cut there, rather than refused.
        room: grows before the decoded body exceeds it.
        clock: bounds the time; it is stopped while `room` waits.
    """

    max_bytes: int
    truncate: bool
    room: Reservation
    clock: asyncio.Timeout


async def read_body(response: aiohttp.ClientResponse, limits: ReadLimits) -> tuple[bytes, bool]:
    """Return the decompressed body, and whether it was cut."""
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower() or "identity"
    decoder = _Decoder(encoding) if encoding != "identity" else None
    told = response.content_length if decoder is None else None
    cost = BodyCost(json="json" in response.headers.get("Content-Type", ""))
    body, raw = bytearray(), 0
    while chunk := await response.content.readany():
        raw += len(chunk)
        for piece in decoder.feed(chunk) if decoder is not None else (chunk,):
            body += piece
            if max(raw, len(body)) > limits.max_bytes:
                if limits.truncate:
                    response.close()
                    return bytes(body[: limits.max_bytes]), True
                raise TooLarge(f"The answer is larger than {limits.max_bytes} bytes.")
            cost.add(piece)
            if cost.size > limits.room.size:
                # Reserve for the whole body at once, if possible: a waiting call should not hold half of a
                # body.
                length = min(told or _GROWTH * len(body), limits.max_bytes)
                await limits.room.grow(cost.estimate(length), limits.clock)
    if decoder is not None and not decoder.finished and raw:
        raise BadResponse("The compressed answer breaks off.")
    limits.room.shrink(cost.size)
    return bytes(body), False


class _Decoder:
    """Undoes gzip or deflate, a bounded number of bytes at a time."""

    def __init__(self, encoding: str) -> None:
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise BadResponse("The answer has an encoding that was not asked for.")
        self._raw_deflate = encoding == "deflate"
        self._inner = zlib.decompressobj(zlib.MAX_WBITS | 32)

    @property
    def finished(self) -> bool:
        return self._inner.eof

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decompress `data` into pieces of at most 64 KiB. Data after the end is dropped."""
        while not self.finished:
            piece = self._decompress(data)
            data = self._inner.unconsumed_tail
            yield piece
            if not data and len(piece) < _PIECE_BYTES:
                return

    def _decompress(self, data: bytes) -> bytes:
        try:
            decoded = self._inner.decompress(data, _PIECE_BYTES)
        except zlib.error:
            if not self._raw_deflate:
                raise BadResponse("The answer is not compressed as it says.") from None
            # "deflate" should mean zlib's format; some servers send the bare stream.
            self._raw_deflate, self._inner = False, zlib.decompressobj(-zlib.MAX_WBITS)
            return self._decompress(data)
        self._raw_deflate = False
        return decoded
