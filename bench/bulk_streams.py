"""Streams of profiles and searches of a hundred, with a source on this machine; see `bench.bulk`."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Collection
from typing import Any

import httpx
from aiohttp import web

from bench.stack import Stack
from providers.registry import KINDS
from providers.sources.base import RemoteSource

_SEARCHED = 100
_SECONDS = 600.0
# The one network source of each kind here; `urlhausip` uses the key of `urlhaus`.
_SOURCES = ("gravatar", "searxng", "gleif", "urlhaus", "urlhausip")


@contextlib.asynccontextmanager
async def connected(stack: Stack) -> AsyncGenerator[httpx.AsyncClient]:
    """Open a client with the first account's key, for the block."""
    headers = {"Authorization": f"Bearer {stack.key}"}
    async with httpx.AsyncClient(
        base_url=stack.url, headers=headers, trust_env=False, timeout=_SECONDS
    ) as client:
        yield client


async def watch(stack: Stack, most: dict[str, int], over: asyncio.Event) -> None:
    """Record the most memory of each part, in MiB, until it is over."""
    while not over.is_set():
        for part, mib in stack.resident_mib().items():
            most[part] = max(mib, most.get(part, 0))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), 0.25)


class LocalSource:
    """Answers like all of these sources, after `delay` seconds."""

    def __init__(self) -> None:
        self.delay = 0.0
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None)

    async def start(self) -> str:
        """Start answering; return the address."""
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Stop answering."""
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(self.delay)
        what, _, which = request.path[1:].partition("/")
        if "ip_address" in request.query:
            return web.json_response({"security": {"is_vpn": False}, "location": {"country_code": "DE"}})
        if what == "profiles":
            return web.json_response({"hash": which, "display_name": "Ada Lovelace"})
        if what == "search":
            pages = [{"title": f"Page {n}", "url": f"https://example.com/{n}"} for n in range(20)]
            return web.json_response({"results": pages})
        if what == "lei-records":
            found = _entity(request.query.get("filter[entity.legalName]", "A company"))
            return web.json_response({"data": found if which else [found]})
        return web.json_response({"query_status": "ok", "urls": [], "blacklists": {"surbl": "listed"}})


def _entity(name: str) -> dict[str, Any]:
    address = {"addressLines": ["1 Street"], "city": "Berlin", "country": "DE"}
    entity = {
        "legalName": {"name": name}, "legalAddress": address, "registeredAt": {"id": "RA000242"},
        "registeredAs": "HRB 1", "status": "ACTIVE",
    }  # fmt: skip
    return {"attributes": {"lei": "529900T8BM49AURSDO55", "entity": entity}}


def only_from(url: str, chosen: Collection[str] = _SOURCES) -> dict[str, str]:
    """Return settings by which these sources are at the URL, and all other network sources are disabled."""
    sources = (source for kind in KINDS.values() for source in kind.sources)
    names = {source.spec.name for source in sources if isinstance(source, RemoteSource)}
    off = {f"VEDETTE_PROVIDER_{name.upper()}_ENABLED": "0" for name in names.difference(chosen)}
    there = {f"VEDETTE_PROVIDER_{name.upper()}_BASE_URL": url for name in chosen}
    keys = {f"VEDETTE_PROVIDER_{name.upper()}_KEY": "bench" for name in ("urlhaus", *chosen)}
    return off | there | keys


async def stream(client: httpx.AsyncClient, path: str, body: dict[str, list[str]]) -> tuple[float, float]:
    """Return the seconds until the first answer to a query, and until the end."""
    [texts] = body.values()
    started, answers, last = time.perf_counter(), list[float](), ""
    async with client.stream("POST", path, json=body, headers={"Accept": "text/event-stream"}) as response:
        assert response.status_code == 200, await response.aread()
        async for line in response.aiter_lines():
            last = line if line.startswith("data:") else last
            if line.startswith(('data: {"query"', 'data: {"email"')):
                assert '"error"' not in line, line
                answers.append(time.perf_counter() - started)
    assert (last, len(answers)) == ("data: [DONE]", len(texts)), (last, len(answers))
    return answers[0], time.perf_counter() - started


async def streams(stack: Stack, source: LocalSource, emails: int, delay: float) -> None:
    """Print their durations, by kind of lookup and delay of the source."""
    searches = {
        "company": [f"Company {n} GmbH" for n in range(_SEARCHED)],
        "web": [f"words {n}" for n in range(_SEARCHED)],
        "domain": [f"name{n}.com" for n in range(_SEARCHED)],
        "ip": [f"8.8.{n}.8" for n in range(_SEARCHED)],
    }
    print(f"\n{'':40}  first, ms  all, ms   each s  api, CPU ms each  api, MiB")
    async with connected(stack) as client:

        async def measure(name: str, path: str, body: dict[str, list[str]]) -> None:
            over, most, [texts] = asyncio.Event(), dict[str, int](), body.values()
            watching = asyncio.create_task(watch(stack, most, over))
            used = stack.cpu_seconds()["api"]
            first, total = await stream(client, path, body)
            cpu = (stack.cpu_seconds()["api"] - used) / len(texts) * 1000
            over.set()
            await watching
            figures = f"{first * 1000:11.0f}{total * 1000:9.0f}{len(texts) / total:9.0f}{cpu:18.2f}"
            what = f"{name:26}{len(texts):6}, {source.delay * 1000:3.0f} ms"
            print(f"{what}{figures}{most['api']:10}", flush=True)

        people, warm = "/api/agent/bulk-lookup", [f"warm{n}@example.com" for n in range(50)]
        await stream(client, people, {"emails": warm})
        for source.delay in (0.0, delay):
            asked = [f"person{n}.{source.delay:g}@example.com" for n in range(emails)]
            await measure("bulk-lookup of e-mails", people, {"emails": asked})
            if source.delay:
                await measure("  the same again, kept", people, {"emails": asked})
        for kind, queries in searches.items():
            await measure(f"bulk-{kind}-search", f"/api/bulk-{kind}-search", {"queries": queries})
