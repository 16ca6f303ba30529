"""Sources that limit at random, and the check that no answer is a false "none"; see `bench.lookups`."""

from __future__ import annotations

import asyncio
import random
import zlib
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from aiohttp import web

from models.lookups.lookups import AllProvidersFailed
from providers.breach.kind import KIND as BREACH
from providers.lookup.lookup import Lookups


@asynccontextmanager
async def serving_with(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncGenerator[str]:
    """Run a server that answers every path with `answer`."""
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class Limiting:
    """The breach sources: each knows a third of all addresses, and sometimes refuses a request."""

    def __init__(self) -> None:
        self._chance = random.Random(5)

    def knows(self, source: str, email: str) -> bool:
        """Return whether `source` knows of a breach of `email`."""
        return zlib.crc32(f"{source} {email}".encode()) % 9 < 3

    async def answer(self, source: str, request: web.Request) -> web.StreamResponse:
        """Answer as the source does, or that it is asked too often."""
        if self._chance.random() < 0.01:
            return web.Response(status=429, headers={"Retry-After": "1"})
        known = self.knows(source, request.query["email" if "email" in request.query else "check"])
        if source == "leakcheck":
            said: Any = {"success": True, "found": int(known), "fields": [], "sources": [{"name": "Leak"}]}
        elif source == "hudsonrock":
            said = {"stealers": [{}] if known else []}
        else:
            details = {"breaches_details": [{"breach": "Breach", "xposed_data": "Names"}]}
            said = {"ExposedBreaches": details if known else None}
        return web.json_response(said)


async def check_nones(open_lookups: Callable[..., Awaitable[Lookups]], lookups: int) -> None:
    """Check this many addresses, 32 at a time, and compare the answers with the sources' knowledge."""
    world, names = Limiting(), ("xposedornot", "leakcheck", "hudsonrock")
    async with AsyncExitStack() as stack:
        providers: dict[str, dict[str, str]] = {}
        for name in names:
            url = await stack.enter_async_context(serving_with(partial(world.answer, name)))
            providers[name] = {"base_url": url}
        unlimited = tuple(replace(one, spec=replace(one.spec, rates=())) for one in BREACH.sources)
        service = await open_lookups(replace(BREACH, sources=unlimited), providers=providers)
        told: Counter[str] = Counter()

        async def check(numbers: Iterator[int]) -> None:
            for number in numbers:
                email = f"person{number}@example.com"
                try:
                    result = await service.lookup("breach", email)
                except AllProvidersFailed:
                    told["nobody answered"] += 1
                    continue
                count = result.data["breaches"]
                told["unknown" if count is None else "none" if count == 0 else "some"] += 1
                if count == 0 and (result.partial or any(world.knows(name, email) for name in names)):
                    told["false none"] += 1

        numbers = iter(range(lookups))
        await asyncio.gather(*(check(numbers) for _ in range(32)))
        print(f"{lookups} breach checks, sources limit at random: {dict(told)}")
        print(f"  false none: {told['false none']}")
