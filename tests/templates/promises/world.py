"""What templates look up, as a test wants it: sources on loopback that answer, fall silent and come back.

Each lookup asks them anew: no answer is kept, and no failure makes a source rest.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from database import Database
from providers.domain import delegation
from providers.lookup.admission import AdmissionControl
from providers.lookup.lookup import Lookups
from providers.lookup.questions import DEFAULTS, LookupOptions
from providers.lookup.result import LookupResult
from providers.registry import KINDS
from providers.sources.base import Fields, LocalSource, RemoteSource, SourceError
from settings import ProviderSettings
from tests.company.fixture_servers import Servers, serving
from tests.domain.conftest import ask_here, certificate
from tests.email.sources import Sources, sources_on_loopback

ONION = "exampleexampleexampleexampleexampleexampleexampleexample.onion"
_SERVED = {
    "breach": ("leakcheck", "xposedornot"),
    "company": ("wikidata",),
    "darkweb": ("ahmia",),
    "domain": ("rdapdomain",),
    "username": ("keybase",),
    "websearch": ("searxng",),
}
_OF_PEOPLE = ("gravatar", "github", "mx")
_LISTS = {source.spec.name: source for source in KINDS["ip"].sources if isinstance(source, LocalSource)}


def day(days: float) -> str:
    """The date in so many days."""
    return (datetime.now(UTC) + timedelta(days=days)).date().isoformat()


class World:
    """What the sources know."""

    def __init__(self, people: Sources, servers: dict[str, Servers], folder: Path) -> None:
        self._people, self._servers, self._folder = people, servers, folder
        self._certificates = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._certificates.sni_callback = self._greet
        self._silent: set[str] = set()
        self.zone = people.zone
        self.certificate(400)
        self.providers = {name: people.providers[name] for name in _OF_PEOPLE}
        self.providers["dns"] = people.providers["mx"]
        for kind, names in _SERVED.items():
            self.providers |= {name: servers[kind].providers[name] for name in names}

    async def open(self, stack: AsyncExitStack) -> None:
        """Serve certificates, too."""
        server = await asyncio.start_server(self._hang_up, "127.0.0.1", 0, ssl=self._certificates)
        stack.callback(server.close)
        url = f"tls://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self.providers["tls"] = ProviderSettings(base_url=url)

    @staticmethod
    async def _hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    def _greet(self, *_: object) -> int | None:
        return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR if "tls" in self._silent else None

    def certificate(self, days: float) -> None:
        """Let web servers show a certificate that ends in so many days."""
        self._certificates.load_cert_chain(
            certificate(self._folder, ends=datetime.now(UTC) + timedelta(days=days))
        )

    def leaks(self, email: str, *services: str, unnamed: int = 0) -> None:
        """Let an address be in these breaches, and in some that are counted alone."""
        named = [{"name": name, "date": "2026-01"} for name in services]
        told = {
            "success": True, "found": len(named) + unnamed, "fields": ["password"],
            "sources": named + unnamed * [{"name": "", "date": ""}],
        }  # fmt: skip
        self._say("leakcheck", "/api/public", {"check": email}, told)
        nothing = {"ExposedBreaches": None}
        self._say("xposedornot", "/v1/breach-analytics", {"email": email}, nothing)

    def leaks_elsewhere(self, email: str, *services: str) -> None:
        """Let the other source of breaches name these."""
        details = [{"breach": name, "xposed_data": "Passwords"} for name in services]
        told = {"ExposedBreaches": {"breaches_details": details}}
        self._say("xposedornot", "/v1/breach-analytics", {"email": email}, told)

    def domain(self, name: str, *, created: float = -2000, expires: float | None = 400) -> None:
        """Let a domain be registered, and take mail."""
        events = [{"eventAction": "registration", "eventDate": f"{day(created)}T04:00:00Z"}]
        if expires is not None:
            events.append({"eventAction": "expiration", "eventDate": f"{day(expires)}T04:00:00Z"})
        registrar = {"roles": ["registrar"], "vcardArray": ["vcard", [["fn", {}, "text", "Names Ltd"]]]}
        told = {
            "objectClassName": "domain", "events": events, "entities": [registrar],
            "nameservers": [{"ldhName": f"ns.{name}"}],
        }  # fmt: skip
        self._say("rdapdomain", f"/domain/{name}", {}, told)
        self.zone[name] = {"A": ["192.0.2.1"], "MX": [f"10 mail.{name}."], "NS": [f"ns.{name}."]}

    def no_domain(self, name: str) -> None:
        """Let nobody have a domain."""
        self._say("rdapdomain", f"/domain/{name}", {}, {"errorCode": 404}, status=404)
        self.zone.pop(name, None)

    @contextmanager
    def officer_is(self, name: str) -> Generator[None]:
        """Let the company be run by another person until the block ends."""
        with pytest.MonkeyPatch.context() as patch:
            for exchange in self._server_of("wikidata").exchanges["wikidata"]:
                if officer := exchange["body"].get("entities", {}).get("Q1002"):
                    patch.setitem(officer["labels"]["en"], "value", name)
            yield

    def mentions(self, query: str, *titles: str) -> None:
        """Let pages of the dark web with these titles mention something."""
        form = '<form action="/search/"><input type="hidden" name="k" value="1"></form>'
        self._say("ahmia", "/", {}, form)
        found = [
            f'<li class="result"><h4><a href="/search/redirect?redirect_url=http://{ONION}/{title}">{title}'
            f"</a></h4><p>Of {query}</p><cite>{ONION}</cite></li>"
            for title in titles
        ]
        page = f'<ol class="searchResults">{"".join(found)}</ol>' if found else self._nothing_found()
        self._say("ahmia", "/search/", {"q": query, "k": "1"}, form + page)

    def _nothing_found(self) -> str:
        served = Servers()
        return served.say("ahmia", "empty")[-1]["text"]

    def _say(self, source: str, path: str, query: dict[str, str], told: Any, status: int = 200) -> None:
        exchange = {"method": "GET", "path": path, "query": query, "status": status}
        exchange |= {"text": told} if isinstance(told, str) else {"body": told}
        exchanges = self._server_of(source).exchanges.setdefault(source, [])
        exchanges[:] = [one for one in exchanges if (one["path"], one["query"]) != (path, query)]
        exchanges.append(exchange)

    def _server_of(self, source: str) -> Servers:
        [kind] = [kind for kind, names in _SERVED.items() if source in names]
        return self._servers[kind]

    @contextmanager
    def silent(self, *sources: str) -> Generator[None]:
        """Let these sources fail until the block ends."""
        with pytest.MonkeyPatch.context() as patch:
            for source in sources:
                if source == "tls":
                    self._silent.add(source)
                elif source in ("dns", "mx"):
                    for name in self.zone:
                        patch.setitem(self.zone, name, {"*": []})
                elif source in _LISTS:
                    _withdraw(patch, _LISTS[source])
                elif source in _OF_PEOPLE:
                    patch.delitem(self._people.fixtures, source)
                else:
                    patch.setitem(self._server_of(source).exchanges, source, [])
            yield
        self._silent.clear()


@asynccontextmanager
async def a_world(folder: Path) -> AsyncGenerator[World]:
    """Serve it until the block ends; it knows Ada, her bank and her domain."""
    async with AsyncExitStack() as stack:
        people = await stack.enter_async_context(sources_on_loopback())
        people.say("ok")
        servers = {kind: await stack.enter_async_context(serving(kind)) for kind in _SERVED}
        world = World(people, servers, folder)
        await world.open(stack)
        servers["username"].say("keybase", "ok")
        servers["websearch"].say("searxng", "ok")[0]["query"]["q"] = "Example Bank"
        told = servers["company"]
        told.exchanges["wikidata"] = [*told.say("wikidata", "by_domain"), *told.say("wikidata", "ok")]
        world.leaks("ada@example.com")
        world.domain("example.com")
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        ask_here(patch, delegation, people.providers["mx"].base_url or "")
        _ask_anew(patch)
        yield world


def _withdraw(patch: pytest.MonkeyPatch, source: LocalSource) -> None:
    """Let a list on this machine be missing."""

    def find(*_: object) -> Fields:
        raise SourceError("skipped", "no_dataset")

    patch.setitem(vars(source), "find", find)


def _ask_anew(patch: pytest.MonkeyPatch) -> None:
    """Let every lookup ask every source, whatever it said or failed before."""
    lookup = Lookups.lookup

    async def ask(
        self: Lookups, kind: str, query: str, options: LookupOptions = DEFAULTS, **how: Any
    ) -> LookupResult:
        return await lookup(self, kind, query, replace(options, max_age=0), **how)

    async def admit(*_: Any) -> None:
        """Admit it."""

    def refusal(*_: Any) -> None:
        """Refuse nobody."""

    patch.setattr(Lookups, "lookup", ask)
    patch.setattr(AdmissionControl, "admit", admit)
    patch.setattr(AdmissionControl, "find_refusal", refusal)


def all_off() -> dict[str, ProviderSettings]:
    """The settings that switch every source over the network off."""
    sources: Iterable[Any] = (source for kind in KINDS.values() for source in kind.sources)
    return {
        one.spec.name: ProviderSettings(enabled=False) for one in sources if isinstance(one, RemoteSource)
    }


async def let_pass(database: Database, days: float) -> None:
    """Let so much time pass for what workflows remember."""
    async with database.connection() as connection:
        await connection.execute(
            "update remembered_keys"
            " set first_at = first_at - %(passed)s, expires_at = expires_at - %(passed)s",
            {"passed": timedelta(days=days)},
        )
