"""Whether a domain takes mail, asked of a name server on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
import httpx
import pytest

from providers.base import Context, SourceError
from providers.email import mx
from providers.email.address import normalise

Zone = dict[str, dict[str, list[str]]]


class NameServer(asyncio.DatagramProtocol):
    """Answers from a zone: name → type → records. Unknown names do not exist."""

    def __init__(self, zone: Zone, rcode: dns.rcode.Rcode | None, silent: bool) -> None:
        self.zone, self.rcode, self.silent = zone, rcode, silent

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        if self.silent:
            return
        message = dns.message.from_wire(data)
        [question] = message.question
        answer = dns.message.make_response(message)
        answer.flags |= dns.flags.RA
        records = self.zone.get(question.name.to_text())
        kind = dns.rdatatype.to_text(question.rdtype)
        if self.rcode is not None:
            answer.set_rcode(self.rcode)
        elif records is None:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        elif kind in records:
            answer.answer.append(dns.rrset.from_text(question.name, 60, "IN", kind, *records[kind]))
        self.transport.sendto(answer.to_wire(), addr)


Ask = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
async def ask() -> AsyncGenerator[Ask]:
    transports: list[asyncio.DatagramTransport] = []

    async def ask(
        zone: Zone, *, rcode: dns.rcode.Rcode | None = None, silent: bool = False, timeout: float = 2
    ) -> dict[str, Any]:
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: NameServer(zone, rcode, silent), local_addr=("127.0.0.1", 0)
        )
        transports.append(transport)
        url = f"dns://127.0.0.1:{transport.get_extra_info('sockname')[1]}"
        async with httpx.AsyncClient() as client:
            context = Context(client, url, None, timeout)
            return mx.parse(await mx.fetch(normalise("email", "ada@example.com", "/email"), context))

    yield ask
    for transport in transports:
        transport.close()


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ({"MX": ["10 mail.example.com.", "20 backup.example.com."]}, True),
        ({"MX": ["0 ."]}, False),
        ({"A": ["192.0.2.1"]}, True),
        ({"AAAA": ["2001:db8::1"]}, True),
        ({"TXT": ['"v=spf1 -all"']}, False),
        ({}, False),
    ],
)
async def test_a_domain_takes_mail_by_its_records(
    records: dict[str, list[str]], found: bool, ask: Ask
) -> None:
    assert await ask({"example.com.": records}) == {"mx_found": found}


async def test_a_domain_that_does_not_exist_takes_no_mail(ask: Ask) -> None:
    assert await ask({}) == {"mx_found": False}


async def test_a_null_mx_holds_although_there_is_an_address(ask: Ask) -> None:
    assert await ask({"example.com.": {"MX": ["0 ."], "A": ["192.0.2.1"]}}) == {"mx_found": False}


@pytest.mark.parametrize(
    ("how", "status"),
    [({"rcode": dns.rcode.SERVFAIL}, "error"), ({"silent": True, "timeout": 0.2}, "timeout")],
)
async def test_a_name_server_that_does_not_say_leaves_it_unknown(
    how: dict[str, Any], status: str, ask: Ask
) -> None:
    with pytest.raises(SourceError) as failed:
        await ask({"example.com.": {"MX": ["10 mail.example.com."]}}, **how)
    assert failed.value.status == status
