"""A load generator: keep-alive HTTP/1.1 over asyncio, cheap enough to share a machine with a server."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import repeat
from typing import NamedTuple, cast

_MOST_CONNECTIONS = 512
_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Address(NamedTuple):
    """The address of a server; `trust`: what its certificate is held against, if it speaks TLS."""

    port: int
    host: str = "127.0.0.1"
    trust: ssl.SSLContext | None = None


@dataclass
class Result:
    """The result of a load run.

    Attributes:
        seconds: its duration.
        latencies: of every answer, in seconds.
        statuses: the number of answers by status.
    """

    seconds: float
    latencies: list[float] = field(default_factory=list[float])
    statuses: Counter[int] = field(default_factory=Counter[int])

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.latencies) / self.seconds

    def percentile(self, share: float) -> float:
        """Return the latency, in milliseconds, that this share of the answers stayed under."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000

    def __str__(self) -> str:
        statuses = ", ".join(f"{status}: {count}" for status, count in sorted(self.statuses.items()))
        return (
            f"{self.rate:8.0f}/s   p50 {self.percentile(0.5):7.2f} ms   p99 {self.percentile(0.99):7.2f} ms"
            f"   ({statuses})"
        )


class _Client(asyncio.Protocol):
    """One connection with one request in flight."""

    def __init__(
        self,
        requests: Iterator[bytes],
        result: Result,
        deadline: float,
        gate: asyncio.Event | None,
        done: asyncio.Future[None],
    ) -> None:
        self._requests = requests
        self._result = result
        self._deadline = deadline
        self._gate = gate
        self._done = done
        self._received = b""
        self._sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def _send(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self._transport.close()
            return
        self._sent = time.perf_counter()
        self._transport.write(request)

    async def _send_when_open(self, gate: asyncio.Event) -> None:
        await gate.wait()
        if time.perf_counter() < self._deadline:
            self._send()
        else:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator:
            return
        length = 0
        for line in head.split(b"\r\n"):
            if line[:15].lower() == b"content-length:":
                length = int(line[15:])
        if len(body) < length:
            return
        self._received = b""
        now = time.perf_counter()
        self._result.latencies.append(now - self._sent)
        self._result.statuses[int(head[9:12])] += 1
        if now >= self._deadline:
            self._transport.close()
        elif self._gate is None or self._gate.is_set():
            self._send()
        else:
            self._waiting = asyncio.create_task(self._send_when_open(self._gate))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_result(None)


def request_bytes(method: str, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    """Return a request, ready to be written."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *(f"{k}: {v}" for k, v in headers.items())]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def run(
    address: Address,
    request: bytes | Iterator[bytes],
    *,
    clients: int,
    seconds: float,
    gate: asyncio.Event | None = None,
) -> Result:
    """Send `request` over and over, or one request after the other, from `clients` connections.

    It starts no request after `seconds` or the last one, nor while the gate is not set.
    """
    loop = asyncio.get_running_loop()
    requests = repeat(request) if isinstance(request, bytes) else request
    started = time.perf_counter()
    result, futures = Result(seconds), list[asyncio.Future[None]]()
    for _ in range(clients):
        done = loop.create_future()
        futures.append(done)
        await loop.create_connection(
            lambda done=done: _Client(requests, result, started + seconds, gate, done),
            address.host, address.port, ssl=address.trust,
        )  # fmt: skip
    await asyncio.gather(*futures)
    result.seconds = time.perf_counter() - started
    return result


async def read_status(reader: asyncio.StreamReader) -> int:
    """Read one answer to its end; return its status."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    await reader.readexactly(int(length.split(b":")[1]))
    return int(head[9:12])


async def offer(address: Address, requests: Iterator[bytes], *, rate: float, seconds: float) -> Result:
    """Send `rate` requests a second at an even pace, whether or not earlier ones have been answered.

    A latency counts from the moment at which its request was due, so it includes the wait for a connection.
    """
    started, result = time.perf_counter(), Result(seconds)
    places, idle = asyncio.Semaphore(_MOST_CONNECTIONS), list[_Connection]()

    async def send(due: float, request: bytes) -> None:
        async with places:
            while idle and idle[-1][0].at_eof():
                idle.pop()[1].close()
            reader, writer = (
                idle.pop()
                if idle
                else await asyncio.open_connection(address.host, address.port, ssl=address.trust)
            )
            writer.write(request)
            result.statuses[await read_status(reader)] += 1
            result.latencies.append(time.perf_counter() - due)
            idle.append((reader, writer))

    async with asyncio.TaskGroup() as group:
        for number in range(int(rate * seconds)):
            due = started + number / rate
            await asyncio.sleep(due - time.perf_counter())
            group.create_task(send(due, next(requests)))
    for _, writer in idle:
        writer.close()
    result.seconds = time.perf_counter() - started
    return result
