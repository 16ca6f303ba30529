"""All sources of the kinds about people, as servers on loopback: each answers as its fixture says."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from database import Database
from providers.registry import KINDS
from providers.sources.base import RemoteSource
from settings import ProviderSettings, Settings
from tests.api_server import Api, Person, running
from tests.name_servers import NameServer, Zone

_FIXTURES = Path(__file__).parents[1] / "fixtures"
NAMES = sorted(
    source.spec.name
    for kind in ("breach", "email", "phone")
    for source in KINDS[kind].sources
    if isinstance(source, RemoteSource) and source.spec.kind == kind
)


class Sources:
    """What each source answers, by fixture, and how often it was asked."""

    def __init__(self) -> None:
        self.fixtures: dict[str, str] = {}
        self.zone: Zone = {"example.com": {"MX": ["10 mail.example.com."]}}
        self.asked: Counter[str] = Counter()
        self.providers: dict[str, ProviderSettings] = {}

    def say(self, fixture: str, *names: str) -> None:
        """Let these sources, or all, answer by this fixture."""
        self.fixtures |= dict.fromkeys(names or NAMES, fixture)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        name, path = request.match_info["name"], request.match_info["path"]
        self.asked[name] += 1
        fixture = self.fixtures.get(name)
        if fixture is None:
            return web.Response(status=503)
        exchanges: list[dict[str, Any]] = json.loads((_FIXTURES / name / f"{fixture}.json").read_text())[
            "exchanges"
        ]
        there = [one for one in exchanges if one["path"].endswith(path)] or exchanges
        asked = request.query.items()
        exchange = next((one for one in there if one.get("query", {}).items() <= asked), there[0])
        if exchange["status"] == 204:
            return web.Response(status=204)
        text = exchange["text"] if "text" in exchange else json.dumps(exchange.get("body"))
        return web.Response(status=exchange["status"], text=text, content_type="application/json")


@asynccontextmanager
async def sources_on_loopback(*, keys: bool = False) -> AsyncGenerator[Sources]:
    """Serve all of them until the block ends.

    Args:
        keys: set a key for each, so that those that need one are on.
    """
    sources = Sources()
    app = web.Application()
    app.router.add_get("/{name}/{path:.*}", sources.answer)
    runner = web.AppRunner(app, shutdown_timeout=0, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: NameServer(sources.zone), local_addr=("127.0.0.1", 0)
    )
    key = {"key": "the-operators-key"} if keys else {}
    for name in NAMES:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/{name}"
        if name == "mx":
            url = f"dns://127.0.0.1:{transport.get_extra_info('sockname')[1]}"
        sources.providers[name] = ProviderSettings.model_validate({"base_url": url, **key})
    try:
        yield sources
    finally:
        transport.close()
        await runner.cleanup()


def running_with(
    sources: Sources, settings: Settings, *, local_only: bool = False
) -> AbstractAsyncContextManager[Api]:
    """The API with these sources."""
    return running(settings, providers=sources.providers, local_only=local_only)


@pytest.fixture
async def sources(database: Database) -> AsyncGenerator[Sources]:
    async with database.connection() as connection:
        await connection.execute(
            "truncate lookup_answers, provider_states, source_windows, source_turns, suppressions"
        )
    async with sources_on_loopback() as sources:
        yield sources


@pytest.fixture
async def people_api(settings: Settings, sources: Sources) -> AsyncGenerator[Api]:
    async with running_with(sources, settings) as api:
        yield api


@pytest.fixture
async def person(people_api: Api) -> Person:
    return await people_api.person(credits=100)
