"""A kind of lookup of the tests' own, whose sources are servers on loopback that do as they are told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web
from pydantic import BaseModel

from database import Database
from models.errors import FieldError, Invalid
from models.lookups.lookups import LookupAnswer
from outbound.client import Outbound
from providers.lookup.lookup import Lookups
from providers.sources.base import (
    Context,
    Evidence,
    Fields,
    Query,
    RemoteSource,
    RemoteSpec,
    SourceError,
    Unsure,
    json_answer,
)
from providers.sources.kind import Kind
from sealing import Keyring
from settings import Settings
from tests.lookup_rows import forget_lookups


class Block(BaseModel):
    value: int | None
    shared: str | None


class Answer(LookupAnswer):
    word: str
    a: Block
    b: Block
    c: Block
    shared: str | None


async def fetch(query: Query, context: Context) -> Any:
    headers = {"x-key": context.key} if context.key else {}
    response = await context.client.get(
        f"{context.base_url}/{query.text}", headers=headers, timeout=context.timeout
    )
    return json_answer(response, empty=frozenset({410}))


async def initial(query: Query, context: Context) -> str:
    """The server of a word: each letter has its own."""
    if query.text[0] == "z":
        raise SourceError("skipped", "no_server")
    if query.text[0] == "y":
        raise SourceError("error", "nobody_knows")
    return query.text[0]


def parse(raw: Any) -> Fields:
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise SourceError("bad_response", "not_an_object")
    told = cast("Fields", raw)
    return {path: Unsure() if value == "?" else value for path, value in told.items()}


def spec(name: str, **changes: Any) -> RemoteSpec:
    declared = RemoteSpec(
        name=name,
        kind="word",
        fields=frozenset({f"{name[0]}.value", "shared"}),
        licence="public domain",
        attribution=name,
        evidence=Evidence("https://example.com/documented", date(2026, 11, 22)),
        timeout=2,
        ttl=3600,
        negative_ttl=60,
    )
    return replace(declared, **changes)


def normalise(text: str, pointer: str) -> Query:
    if not text.strip().isalpha():
        raise Invalid([FieldError(pointer, "invalid_word", "Give a word, such as apple.")])
    return Query("word", text.strip().lower())


def kind(*specs: RemoteSpec) -> Kind:
    sources = tuple(
        RemoteSource(one, fetch, parse, server_of=initial if one.per_server else None) for one in specs
    )
    return Kind(
        name="word", sources=sources, answer=Answer, example="apple", normalise=normalise, echo="word"
    )


Respond = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Provider:
    """The server of one source: answers with `fields`, unless `respond` does."""

    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    respond: Respond | None = None
    requests: list[web.Request] = field(default_factory=list[web.Request])
    url: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if self.respond is not None:
            return await self.respond(request)
        return web.json_response(self.fields)

    def says(self, status: int, body: str = "", **headers: str) -> None:
        """Answer everything with this from now on."""

        async def respond(request: web.Request) -> web.StreamResponse:
            return web.Response(
                status=status, text=body, headers={k.replace("_", "-"): v for k, v in headers.items()}
            )

        self.respond = respond

    def hangs(self) -> asyncio.Event:
        """Answer nothing until the event is set."""
        release = asyncio.Event()

        async def respond(request: web.Request) -> web.StreamResponse:
            await release.wait()
            return web.json_response(self.fields)

        self.respond = respond
        return release


class World:
    """Sources and the lookups over them; each `process` has its own memory, as real processes have."""

    def __init__(self, database: Database, keyring: Keyring, data: Path, stack: AsyncExitStack) -> None:
        self.database = database
        self.keyring = keyring
        self._data = data
        self._stack = stack
        self.providers: dict[str, Provider] = {}

    async def provider(self, name: str, **fields: Any) -> Provider:
        provider = self.providers[name] = Provider({k.replace("__", "."): v for k, v in fields.items()})
        app = web.Application()
        app.router.add_get("/{word}", provider.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.05)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        provider.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return provider

    async def process(
        self,
        *specs: RemoteSpec,
        keyring: Keyring | None = None,
        database: Database | None = None,
        **settings: Any,
    ) -> Lookups:
        """Lookups of a process of its own, over these sources or else one for each provider."""
        chosen = specs or tuple(spec(name) for name in self.providers)
        own: dict[str, dict[str, Any]] = settings.pop("providers", {})
        urls = {name: {"base_url": provider.url} for name, provider in self.providers.items()}
        providers = {name: urls.get(name, {}) | own.get(name, {}) for name in urls.keys() | own.keys()}
        configured = Settings.model_validate({"data": self._data, "providers": providers, **settings})
        outbound = await self._stack.enter_async_context(Outbound(configured))
        kinds = {"word": kind(*chosen)}
        lookups = Lookups(
            configured, database or self.database, keyring or self.keyring, outbound, kinds=kinds
        )
        await lookups.open()
        self._stack.push_async_callback(lookups.close)
        return lookups


@pytest.fixture
async def world(database: Database, keyring: Keyring, tmp_path: Path) -> AsyncGenerator[World]:
    await forget_lookups(database)
    async with AsyncExitStack() as stack:
        yield World(database, keyring, tmp_path, stack)
