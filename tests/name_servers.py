"""Name servers on loopback that answer from a zone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest

Zone = dict[str, dict[str, list[str]]]
"""Name → type → records as in a zone file. `{"*": []}` as the types of a name: the server fails for it,
`{"!": []}`: it withholds the name as Quad9 does."""


class NameServer(asyncio.DatagramProtocol):
    """Answers from a zone; names that are not in it do not exist. With `silent`, says nothing."""

    def __init__(self, zone: Zone, silent: bool = False) -> None:
        self.zone, self.silent = zone, silent
        self.asked: list[tuple[str, str]] = []

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        message = dns.message.from_wire(data)
        question = message.question[0]
        name, kind = question.name.to_text(omit_final_dot=True), dns.rdatatype.to_text(question.rdtype)
        self.asked.append((name, kind))
        if self.silent:
            return
        answer = dns.message.make_response(message)
        answer.flags |= dns.flags.RA
        known = self.zone.get(name)
        if known is None or "!" in known:
            answer.set_rcode(dns.rcode.NXDOMAIN)
            answer.flags ^= dns.flags.RA if known else 0
        elif "*" in known or known.get(kind) == ["SERVFAIL"]:
            answer.set_rcode(dns.rcode.SERVFAIL)
        elif known.get(kind):
            answer.answer.append(dns.rrset.from_text(question.name, 60, "IN", kind, *known[kind]))
        self.transport.sendto(answer.to_wire(), addr)


Serve = Callable[..., Awaitable[tuple[NameServer, str]]]


@pytest.fixture
async def name_server() -> AsyncGenerator[Serve]:
    """Starts one with a zone: the server and its `dns://` URL."""
    transports: list[asyncio.DatagramTransport] = []

    async def start(zone: Zone | None = None, *, silent: bool = False) -> tuple[NameServer, str]:
        transport, server = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: NameServer(zone or {}, silent), local_addr=("127.0.0.1", 0)
        )
        transports.append(transport)
        return server, f"dns://127.0.0.1:{transport.get_extra_info('sockname')[1]}"

    yield start
    for transport in transports:
        transport.close()
