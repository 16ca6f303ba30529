"""Sources as servers on loopback that answer as their fixtures say, whatever the order of the requests."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from providers.registry import KINDS
from providers.sources.base import RemoteSource
from settings import ProviderSettings

_FIXTURES = Path(__file__).parents[1] / "fixtures"
KEY = "the-operators-key"


class Servers:
    """What each source of a kind answers, and what it was asked. What is not in a fixture answers 503."""

    def __init__(self) -> None:
        self.exchanges: dict[str, list[dict[str, Any]]] = {}
        self.asked: Counter[str] = Counter()
        self.providers: dict[str, ProviderSettings] = {}

    def say(self, name: str, fixture: str) -> list[dict[str, Any]]:
        """Let a source answer by this fixture; the exchanges may still be changed."""
        told = json.loads((_FIXTURES / name / f"{fixture}.json").read_text())
        self.exchanges[name] = told["exchanges"]
        return self.exchanges[name]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        name, path = request.match_info["name"], request.match_info["path"]
        self.asked[name] += 1
        for exchange in self.exchanges.get(name, []):
            query = {key: value.replace("$key", KEY) for key, value in exchange["query"].items()}
            if (
                exchange["method"] == request.method
                and exchange["path"].rstrip("/").endswith(path.rstrip("/"))
                and query == dict(request.query)
            ):
                text = exchange["text"] if "text" in exchange else json.dumps(exchange["body"])
                return web.Response(status=exchange["status"], text=text, headers=exchange.get("headers"))
        return web.Response(status=503)


@asynccontextmanager
async def serving(kind: str) -> AsyncGenerator[Servers]:
    """Serve the sources of `kind` until the block ends; those that need a key are off until they have one."""
    servers = Servers()
    app = web.Application()
    app.router.add_route("*", "/{name}/{path:.*}", servers.answer)
    runner = web.AppRunner(app, shutdown_timeout=0, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    for source in KINDS[kind].sources:
        if isinstance(source, RemoteSource):
            url = f"http://127.0.0.1:{runner.addresses[0][1]}/{source.spec.name}"
            servers.providers[source.spec.name] = ProviderSettings(base_url=url)
    try:
        yield servers
    finally:
        await runner.cleanup()


def with_keys(servers: Servers) -> dict[str, ProviderSettings]:
    """The settings with which every source is on."""
    return {
        name: ProviderSettings.model_validate({"base_url": one.base_url, "key": KEY})
        for name, one in servers.providers.items()
    }
