"""The API with two sources on loopback that do as they are told: one of people, one of web pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from hashlib import sha256
from typing import Any

import pytest
from aiohttp import web

from database import Database
from providers.registry import KINDS
from providers.sources.base import RemoteSource
from settings import ProviderSettings, Settings
from tests.api_server import Api, Person, running
from tests.datasets import write_small_datasets
from tests.name_servers import NameServer

EVENTS = {"accept": "text/event-stream"}
REMOTE = {one.spec.name for kind in KINDS.values() for one in kind.sources if isinstance(one, RemoteSource)}


def hashed(email: str) -> str:
    return sha256(email.encode()).hexdigest()


class Sources:
    """What the sources answer, what they were asked, and how many requests they hold at the moment.

    Of `strangers` nothing is known, for `failing` queries a source fails. None answers while `open` is unset,
    but for `passing` queries.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.strangers: set[str] = set()
        self.failing: set[str] = set()
        self.passing: set[str] = set()
        self.open = asyncio.Event()
        self.open.set()
        self.held = self.most_held = 0
        self.snippet = "Some text."
        self.providers = {name: ProviderSettings(enabled=False) for name in REMOTE}

    async def profile(self, request: web.Request) -> web.Response:
        """As Gravatar answers: it is asked for the hash of an address."""
        asked = request.match_info["hash"]
        await self._hold(asked)
        if asked in map(hashed, self.failing):
            return web.Response(status=500)
        if asked in map(hashed, self.strangers):
            return web.Response(status=404)
        return web.json_response({"hash": asked, "display_name": "Ada Lovelace", "company": "Engines"})

    async def pages(self, request: web.Request) -> web.Response:
        """As SearXNG answers."""
        query = request.query["q"]
        await self._hold(query)
        if query in self.failing:
            return web.Response(status=500)
        pages = [{"title": query, "url": "https://example.org/", "content": self.snippet}]
        return web.json_response({"results": pages, "unresponsive_engines": []})

    async def _hold(self, asked: str) -> None:
        self.asked.append(asked)
        self.held += 1
        self.most_held = max(self.held, self.most_held)
        try:
            if asked not in {*self.passing, *map(hashed, self.passing)}:
                await self.open.wait()
        finally:
            self.held -= 1


@pytest.fixture
async def sources(database: Database, settings: Settings) -> AsyncGenerator[Sources]:
    write_small_datasets(settings.data)
    async with database.connection() as connection:
        await connection.execute(
            "truncate lookup_answers, provider_states, source_windows, source_turns, suppressions"
        )
    sources = Sources()
    app = web.Application()
    app.router.add_get("/profiles/{hash}", sources.profile)
    app.router.add_get("/search", sources.pages)
    async with AsyncExitStack() as stack:
        runner = web.AppRunner(app, shutdown_timeout=0, access_log=None)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: NameServer({"example.com": {"A": ["192.0.2.1"]}}), local_addr=("127.0.0.1", 0)
        )
        stack.callback(transport.close)
        dns = f"dns://127.0.0.1:{transport.get_extra_info('sockname')[1]}"
        on = {"gravatar": url, "searxng": url, "dns": dns}
        sources.providers |= {name: ProviderSettings(base_url=at, enabled=True) for name, at in on.items()}
        yield sources


@pytest.fixture
async def api(settings: Settings, sources: Sources) -> AsyncGenerator[Api]:
    chosen: dict[str, Any] = {"providers": sources.providers, "limit_bulk": None, "local_only": False}
    async with running(settings, **chosen) as api:
        yield api
    sources.open.set()


@pytest.fixture
async def person(api: Api) -> Person:
    return await api.person(credits=100)


async def charges(person: Person) -> list[tuple[str, int]]:
    """The charges of an account, the first one first; they are its whole ledger but for the grant."""
    entries = (await person.key.get("/api/credits/ledger", params={"limit": 100})).json()["entries"]
    balance = (await person.key.get("/api/credits")).json()["balance"]
    assert balance == sum(entry["amount"] for entry in entries)
    return [(one["reference"], -one["amount"]) for one in reversed(entries) if one["kind"] != "grant"]


def emails(count: int) -> list[str]:
    return [f"person{number}@example.com" for number in range(count)]
