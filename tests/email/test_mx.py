"""Whether a domain takes mail, asked of a name server on loopback."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from providers.email import mx
from providers.sources.base import Context, SourceError
from providers.sources.email_address import normalise
from tests.name_servers import Serve

ADDRESS = normalise("email", "ada@example.com", "/email")


async def ask(url: str, timeout: float = 2) -> dict[str, Any]:
    async with httpx.AsyncClient() as client:
        return mx.parse(await mx.fetch(ADDRESS, Context(client, url, None, timeout)))


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ({"MX": ["10 mail.example.com.", "20 backup.example.com."]}, True),
        ({"MX": ["0 ."]}, False),
        ({"MX": ["10 localhost."]}, False),
        ({"MX": ["10 localhost.localdomain.", "20 mail.invalid."]}, False),
        ({"MX": ["10 mx.local."], "A": ["192.0.2.1"]}, False),
        ({"MX": ["10 192.0.2.1."]}, False),
        ({"MX": ["10 localhost.", "20 mail.example.com."]}, True),
        ({"MX": ["0 .", "10 mail.example.com."]}, True),
        ({"MX": ["10 localhost.example.com."]}, True),
        ({"A": ["192.0.2.1"]}, True),
        ({"AAAA": ["2001:db8::1"]}, True),
        ({"TXT": ['"v=spf1 -all"']}, False),
        ({}, False),
    ],
)
async def test_a_domain_takes_mail_by_its_records(
    records: dict[str, list[str]], found: bool, name_server: Serve
) -> None:
    _, url = await name_server({"example.com": records})
    assert await ask(url) == {"mx_found": found, "checks.domain": True}


async def test_a_domain_that_does_not_exist_takes_no_mail(name_server: Serve) -> None:
    server, url = await name_server({})
    assert await ask(url) == {"mx_found": False, "checks.domain": False}
    assert server.asked == [("example.com", "MX")]


async def test_a_null_mx_holds_although_there_is_an_address(name_server: Serve) -> None:
    _, url = await name_server({"example.com": {"MX": ["0 ."], "A": ["192.0.2.1"]}})
    assert await ask(url) == {"mx_found": False, "checks.domain": True}


@pytest.mark.parametrize(("silent", "status"), [(False, "error"), (True, "timeout")])
async def test_a_name_server_that_does_not_say_leaves_it_unknown(
    silent: bool, status: str, name_server: Serve
) -> None:
    _, url = await name_server({"example.com": {"*": []}}, silent=silent)
    with pytest.raises(SourceError) as failed:
        await ask(url, timeout=0.3)
    assert failed.value.status == status


async def test_a_machine_without_name_servers_leaves_it_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(base_url: str) -> tuple[()]:
        return ()

    monkeypatch.setattr(mx, "own_resolvers", none)
    with pytest.raises(SourceError) as failed:
        await ask("")
    assert (failed.value.status, failed.value.detail) == ("error", "no_name_server")
