"""The API for tests: the real application behind a real uvicorn, on a random port, in the test's loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from uuid import uuid4

import httpx
import orjson
import uvicorn
from fastapi import FastAPI
from pwdlib import PasswordHash
from pwdlib.hashers.argon2 import Argon2Hasher
from starlette.routing import Route

from api.app import create_app
from api.deps import Services
from api.http.protocol import BoundedHttp
from api.http.routetable import RouteTable
from models.accounts import accounts, keys, sessions
from models.accounts.accounts import Account, NewAccount
from models.accounts.keys import Scope
from models.audit import Actor
from services.event_checks import EventChecks
from services.process_pool import ProcessPool
from settings import Settings, load

PASSWORD = "correct horse battery staple"
QUICK_HASHER = PasswordHash((Argon2Hasher(time_cost=1, memory_cost=8, parallelism=1),))
# As of a weaker time: a wrong password costs no more than the hash asks that it is held against, and the
# first right one renews it.
_PASSWORD_HASH = QUICK_HASHER.hash(PASSWORD)

# Nothing here is TLS: to read who is trusted takes 40 ms, to prepare for trusting anybody half a one.
_NO_TLS = httpx.create_ssl_context(verify=False)


class _Server(uvicorn.Server):
    async def main_loop(self) -> None:
        # It looks ten times a second by itself, and is stopped after many a module.
        while not await self.on_tick(0):
            await asyncio.sleep(0.02)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield  # Ctrl-C belongs to pytest


shared_pool = ProcessPool()
"""The pool of all applications here: each would start processes of its own, which import for a second."""


@cache
def _first() -> FastAPI:
    """An application whose routes are those of all others: to prepare them takes a quarter of a second."""
    return create_app(load({"DATABASE_URL": "postgresql://never-opened"}))


@cache
def openapi_document() -> dict[str, Any]:
    """The OpenAPI of the service, made once: that of another application differs in its address alone."""
    return _first().openapi()


@dataclass
class Person:
    """An account with a client for its session and one for a key with every scope."""

    account: Account
    token: str
    secret: str
    session: httpx.AsyncClient
    key: httpx.AsyncClient


@dataclass
class Api:
    """A running API."""

    app: FastAPI
    url: str
    stack: contextlib.AsyncExitStack
    http: httpx.AsyncClient = field(init=False)

    @property
    def services(self) -> Services:
        return self.app.state.services

    async def client(self, **headers: str) -> httpx.AsyncClient:
        """An HTTP client with these headers (`_` for `-`)."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        client = httpx.AsyncClient(
            base_url=self.url, headers=named, timeout=30, trust_env=False,
            verify=_NO_TLS,
            event_hooks={"response": [self._check_documented]},
        )  # fmt: skip
        return await self.stack.enter_async_context(client)

    async def _check_documented(self, response: httpx.Response) -> None:
        """An error that a route of the service answers stands in its OpenAPI, whatever the test is of."""
        media_type = "application/problem+json"
        method, path = response.request.method, response.request.url.path
        routes: RouteTable = self.app.state.routes
        _, found = routes.matches({"type": "http", "path": path, "method": method})
        ours = "route" in found and found["route"].endpoint.__module__.startswith("api.")
        ours = ours and found["route"].include_in_schema
        if ours and response.headers.get("content-type") == media_type:
            code = orjson.loads(await response.aread())["code"]
            operation = openapi_document()["paths"][routes.template(found)][method.lower()]
            documented = operation["responses"].get(str(response.status_code), {})
            codes = documented.get("content", {}).get(media_type, {}).get("examples", {})
            assert code in codes, f"{method} {path} answers {code}: name it in problems() of the route"

    async def person(self, *, credits: int = 0, scopes: Iterable[Scope] = keys.ALL_SCOPES) -> Person:
        """A new account."""
        settings, database = self.services.settings, self.services.database
        async with database.transaction() as connection:
            account = await accounts.create_account(
                connection, NewAccount(f"{uuid4().hex}@example.com", _PASSWORD_HASH, "Test", credits=credits)
            )
            system = Actor(account.id, "system", name="system")
            _, secret = await keys.create_key(connection, system, "test", scopes, None)
            token = await sessions.begin(
                connection, self.services.keyring, account.id, settings.session_hours, None
            )
        return Person(
            account,
            token.token,
            secret,
            await self.client(Authorization=f"Bearer {token.token}"),
            await self.client(Authorization=f"Bearer {secret}"),
        )


@contextlib.asynccontextmanager
async def serving(app: FastAPI) -> AsyncGenerator[Api]:
    """Serve `app` until the block ends."""
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, http=BoundedHttp, ws="none", lifespan="on", log_config=None,
        access_log=False, proxy_headers=False, server_header=False, timeout_graceful_shutdown=3,
    )  # fmt: skip
    server = _Server(config)
    task = asyncio.create_task(server.serve())
    try:
        while not server.started:
            if task.done():
                await task
            await asyncio.sleep(0.01)
        services: Services = app.state.services
        services.pool, services.event_checks = shared_pool, EventChecks(shared_pool)
        port = server.servers[0].sockets[0].getsockname()[1]
        async with contextlib.AsyncExitStack() as stack:
            api = Api(app, f"http://127.0.0.1:{port}", stack)
            api.http = await api.client()
            yield api
    finally:
        server.should_exit = True
        await task


def running(settings: Settings, **changes: Any) -> contextlib.AbstractAsyncContextManager[Api]:
    """The API with `settings` and these changes to them; it asks no source outside this machine."""
    app = create_app(settings.model_copy(update={"local_only": True, **changes}))
    routes = zip(app.router.routes, _first().router.routes, strict=True)
    app.router.routes = [own if isinstance(own, Route) else shared for own, shared in routes]
    return serving(app)
