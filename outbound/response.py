"""What comes back from an outgoing request, read within limits."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import aiohttp

from outbound.errors import BadResponse, TooLarge


@dataclass(frozen=True)
class Answer:
    """A response, read to its end.

    Attributes:
        status: the HTTP status code.
        headers: lower-case names; repeated ones are joined by a comma.
        body: the decompressed bytes.
        truncated: whether `body` was cut at the limit (only when the caller asked to cut).
        url: where the answer came from, after redirects.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    truncated: bool
    url: str

    def retry_after(self) -> float | None:
        """The `Retry-After` header in seconds from now, never negative; None when absent or unreadable."""
        return retry_after(self.headers)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The `retry-after` of a response's headers in seconds from now; None when absent or unreadable."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def read_headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    """The response's headers; those of the encoding that `read_body` has undone are left out."""
    found: dict[str, str] = {}
    for raw_name, raw_value in response.raw_headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name not in ("content-encoding", "content-length", "transfer-encoding"):
            found[name] = f"{found[name]}, {value}" if name in found else value
    return found


async def read_body(response: aiohttp.ClientResponse, max_bytes: int, truncate: bool) -> tuple[bytes, bool]:
    """The body, decompressed, and whether it was cut; never more than `max_bytes` of either form."""
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower() or "identity"
    decoder = _Decoder(encoding) if encoding != "identity" else None
    chunks: list[bytes] = []
    raw = size = 0
    while chunk := await response.content.readany():
        raw += len(chunk)
        if decoder is not None:
            chunk = decoder.feed(chunk, max_bytes - size + 1)
        chunks.append(chunk)
        size += len(chunk)
        if max(raw, size) > max_bytes:
            if truncate:
                response.close()
                return b"".join(chunks)[:max_bytes], True
            raise TooLarge(f"The answer is larger than {max_bytes} bytes.")
    if decoder is not None and not decoder.finished and raw:
        raise BadResponse("The compressed answer breaks off.")
    return b"".join(chunks), False


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

    def feed(self, data: bytes, limit: int) -> bytes:
        """Decompress `data`, giving at most `limit` bytes; what is over is for the caller to refuse."""
        try:
            decoded = self._inner.decompress(data, limit)
        except zlib.error:
            if not self._raw_deflate:
                raise BadResponse("The answer is not compressed as it says.") from None
            # "deflate" should mean zlib's format; some servers send the bare stream.
            self._raw_deflate, self._inner = False, zlib.decompressobj(-zlib.MAX_WBITS)
            return self.feed(data, limit)
        self._raw_deflate = False
        return decoded
