"""The registry's RDAP server, found through IANA, and the registrar's, to which it refers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from outbound.client import Outbound
from providers.domain import bootstrap, delegation, rdapdomain
from providers.domain.kind import normalise
from providers.sources.base import Context, SourceError, Unsure
from settings import Settings
from tests.domain.conftest import ask_here
from tests.name_servers import Serve, Zone

FIXTURES = Path(__file__).parents[1] / "fixtures/rdapdomain"
# An answer of a registry that names the registrar by its handle only, and no end of the registration.
SPARSE = json.loads((FIXTURES / "sparse.json").read_text())["exchanges"][0]["body"]
WHOLE = json.loads((FIXTURES / "ok.json").read_text())["exchanges"][0]["body"]
REGISTRARS = {"whois.registrar": "Example Registrar, Inc.", "whois.expires": "2027-08-13"}


@dataclass
class Servers:
    """The registry on 127.0.0.1, which the guard lets through here, and a registrar."""

    context: Context
    stack: AsyncExitStack
    registry: dict[str, Any] | None = None
    asked: list[str] = field(default_factory=list[str])

    async def serve(self, handler: Any, host: str = "127.0.0.1") -> str:
        app = web.Application()
        app.router.add_get("/domain/{name}", handler)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        self.stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, host, 0).start()
        return f"http://{host}:{runner.addresses[0][1]}"

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.match_info["name"])
        return web.json_response(self.registry, status=200 if self.registry else 404)

    async def refer(self, answer: Any, *, status: int = 200, host: str = "127.0.0.1", **sparse: Any) -> None:
        """The registry knows little, and refers to a registrar that answers so."""

        async def handler(request: web.Request) -> web.Response:
            self.asked.append(f"registrar {request.match_info['name']}")
            return web.json_response(answer, status=status)

        url = f"{await self.serve(handler, host)}/domain/EXAMPLE.COM"
        links = [
            {"rel": "self", "href": "http://127.0.0.1/nowhere", "type": "application/rdap+json"},
            {"rel": "related", "href": "http://127.0.0.1/page", "type": "text/html"},
            {"rel": "related", "href": url, "type": "application/rdap+json"},
        ]
        self.registry = SPARSE | {"links": links} | sparse

    async def ask(self, domain: str = "www.example.com") -> dict[str, Any]:
        async with asyncio.timeout(self.context.timeout):
            told = await rdapdomain.fetch(normalise(domain, "/domain"), self.context)
        return rdapdomain.parse(told)


@pytest.fixture
async def servers(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, name_server: Serve
) -> AsyncGenerator[Servers]:
    opened = settings.model_copy(update={"allow_private_networks": (ip_network("127.0.0.1/32"),)})
    async with AsyncExitStack() as stack, Outbound(opened) as outbound:
        context = Context(outbound.provider_client("rdapdomain"), bootstrap.IANA, None, 6)
        servers = Servers(context, stack)
        url = await servers.serve(servers.answer)
        known = bootstrap._Known({"com": url}, float("inf"))  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setitem(bootstrap._known, bootstrap.IANA, known)  # pyright: ignore[reportPrivateUsage]
        _, names = await name_server({})
        ask_here(monkeypatch, delegation, names)
        yield servers


async def test_a_domain_that_neither_the_registry_in_charge_nor_name_servers_know_is_not_registered(
    servers: Servers,
) -> None:
    assert await servers.ask() == {"whois.registered": False}
    assert servers.asked == ["example.com"]


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ({}, {"whois.registered": False}),
        ({"example.ac.uk": {"NS": ["ns1.example.ac.uk."]}}, {}),
    ],
)
async def test_below_a_suffix_that_others_may_run_name_servers_must_not_know_the_domain_either(
    zone: Zone,
    expected: dict[str, Any],
    servers: Servers,
    name_server: Serve,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, url = await name_server(zone)
    ask_here(monkeypatch, delegation, url)
    known = bootstrap._known[bootstrap.IANA].servers  # pyright: ignore[reportPrivateUsage]
    known["uk"] = known["com"]
    assert await servers.ask("www.example.ac.uk") == expected


async def test_whether_name_servers_know_the_domain_must_be_found_out(
    servers: Servers, name_server: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, url = await name_server({"example.ac.uk": {"*": []}})
    ask_here(monkeypatch, delegation, url)
    known = bootstrap._known[bootstrap.IANA].servers  # pyright: ignore[reportPrivateUsage]
    known["uk"] = known["com"]
    assert await servers.ask("www.example.ac.uk") == {"whois.registered": Unsure(why="dns_failed")}


async def test_a_registry_and_name_servers_that_contradict_each_other_leave_it_open(
    servers: Servers, name_server: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, url = await name_server({"example.com": {"NS": ["ns1.example.com."]}})
    ask_here(monkeypatch, delegation, url)
    contradiction = (("registry", False), ("delegation", True))
    assert await servers.ask() == {"whois.registered": Unsure(said=contradiction)}


async def test_a_server_that_the_operator_puts_in_the_place_of_all_registries_is_in_charge(
    servers: Servers,
) -> None:
    url = await servers.serve(servers.answer)
    servers.context = Context(servers.context.client, url, None, 6)
    assert await servers.ask() == {"whois.registered": False}
    await servers.refer(WHOLE)
    assert REGISTRARS.items() <= (await servers.ask()).items()


async def test_the_404_of_a_redirector_does_not_say_that_a_domain_is_not_registered(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rdapdomain, "_REDIRECTORS", {"127.0.0.1"})
    servers.context = Context(servers.context.client, await servers.serve(servers.answer), None, 6)
    assert await servers.ask() == {}


async def test_a_page_with_404_is_no_answer(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    async def page(request: web.Request) -> web.Response:
        return web.Response(status=404, text="<html>", content_type="text/html")

    known = bootstrap._Known({"com": await servers.serve(page)}, float("inf"))  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setitem(bootstrap._known, bootstrap.IANA, known)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(SourceError) as failed:
        await servers.ask()
    assert failed.value.status == "rejected"


async def test_the_registrar_completes_what_the_registry_does_not_tell(servers: Servers) -> None:
    await servers.refer(WHOLE)
    fields = await servers.ask()
    assert fields.items() >= (REGISTRARS | {"whois.registered": True}).items()
    assert fields["whois.name_servers"] == ["a.iana-servers.net", "b.iana-servers.net"]
    assert servers.asked == ["example.com", "registrar EXAMPLE.COM"]


async def test_what_the_registry_tells_goes_before_what_the_registrar_does(servers: Servers) -> None:
    await servers.refer(WHOLE, nameservers=[{"ldhName": "ns1.example.net"}])
    fields = await servers.ask()
    assert (fields["whois.created"], fields["whois.name_servers"]) == ("1995-08-14", ["ns1.example.net"])


async def test_where_the_registry_tells_all_the_registrar_is_not_asked(servers: Servers) -> None:
    await servers.refer(WHOLE)
    assert servers.registry is not None
    servers.registry = WHOLE | {"links": servers.registry["links"]}
    assert (await servers.ask()).items() >= REGISTRARS.items()
    assert servers.asked == ["example.com"]


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ("oops", 500),
        ({"errorCode": 429}, 429),
        ([], 200),
        (WHOLE | {"ldhName": "example.net"}, 200),
        (WHOLE | {"ldhName": None}, 200),
        (WHOLE | {"events": [{}]}, 200),
    ],
)
async def test_a_referral_that_fails_loses_nothing_of_what_the_registry_told(
    answer: Any, status: int, servers: Servers
) -> None:
    await servers.refer(answer, status=status)
    fields = await servers.ask()
    assert (fields["whois.registered"], fields["whois.created"]) == (True, "1995-08-14")
    assert fields["whois.registrar"] == fields["whois.expires"] == Unsure(None)
    assert len(servers.asked) == 2


async def test_what_a_registrar_does_not_know_either_is_unknown(servers: Servers) -> None:
    await servers.refer(None, status=404)
    assert (await servers.ask())["whois.registrar"] is None


@pytest.mark.parametrize(
    "href", ["", "/domain/example.com", "mailto:rdap@example.com", "http://[::", "http://x y/"]
)
async def test_a_referral_to_what_is_no_address_loses_nothing(href: str, servers: Servers) -> None:
    link = {"rel": "related", "href": href, "type": "application/rdap+json"}
    servers.registry = SPARSE | {"links": [link]}
    assert (await servers.ask())["whois.created"] == "1995-08-14"


@pytest.mark.parametrize(
    "links", [None, "x", [None], [{"rel": "self"}], [{"rel": "related", "type": "application/rdap+json"}]]
)
async def test_links_of_another_shape_lose_nothing(links: Any, servers: Servers) -> None:
    servers.registry = SPARSE | {"links": links}
    assert (await servers.ask())["whois.created"] == "1995-08-14"


async def test_a_referral_that_leads_inside_is_not_followed(servers: Servers) -> None:
    await servers.refer(WHOLE, host="127.0.0.2")
    assert (await servers.ask())["whois.created"] == "1995-08-14"
    assert servers.asked == ["example.com"]
