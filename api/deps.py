"""The dependencies of routes: the opened services, the caller and its permissions, ids in paths."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

import structlog
from fastapi import Depends, Request, Security
from fastapi.openapi.models import HTTPBearer as BearerScheme
from fastapi.security.base import SecurityBase
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError
from temporalio.client import Client

from api.auth import cookies
from api.auth.credentials import Caller, Credentials, find_credential
from api.context import context_of
from api.housekeeping import Housekeeping
from api.stream_slots import StreamSlots
from api.write_probe import WriteProbe
from assistant.assistant import Assistant
from assistant.tools import Toolset
from database import Connection, Database
from models.audit import Actor
from models.automations.definitions import Rules
from models.errors import Forbidden, Unauthenticated, Unavailable
from models.identifiers import parse_id
from models.runs.run_bounds import UnfinishedRuns
from notifications import Listener, Notifier
from outbound.client import Outbound
from providers.lookup.lookup import Lookups
from providers.registry import answer_shapes, lookup_fields
from sealing import Keyring
from services.account_feeds import AccountFeeds
from services.bulk_searches import BulkSearches
from services.event_checks import EventChecks
from services.ingest import IngestTargets, RunIntake
from services.keyed_locks import KeyedLocks
from services.process_pool import ProcessPool
from services.rate_limiter import Limiter
from services.run_waiter import RunWaiter
from services.save_places import SavePlaces
from services.signatures import Signatures
from settings import Settings

AGENT_PREFIX = "/api/agent/"
SESSION_SCHEME = "session"
_INSERTING = "rows of files"


@dataclass
class Services:
    """The resources that the API process holds open while the application runs.

    Attributes:
        stopping: whether the process is about to stop.
    """

    settings: Settings
    database: Database
    keyring: Keyring
    notifier: Notifier
    listener: Listener
    temporal: Client
    credentials: Credentials
    housekeeping: Housekeeping
    write_probe: WriteProbe
    waiter: RunWaiter
    streams: StreamSlots
    feeds: AccountFeeds
    ingest_waits: StreamSlots
    outbound: Outbound
    lookups: Lookups
    bulk_searches: BulkSearches
    limiter: Limiter
    pool: ProcessPool
    event_checks: EventChecks
    locks: KeyedLocks
    saves: SavePlaces
    signatures: Signatures
    ingest_targets: IngestTargets
    unfinished_runs: UnfinishedRuns
    run_intake: RunIntake
    mcp: StreamableHTTPSessionManager
    assistant: Assistant
    chat_tools: Callable[[Request, Caller], Toolset]
    stopping: bool = False

    @asynccontextmanager
    async def inserting(self) -> AsyncGenerator[Connection]:
        """Open a transaction for the rows of one file at a time, so files leave connections to others."""
        async with self.locks.hold(_INSERTING), self.database.transaction(shared=True) as connection:
            yield connection


def services_of(request: Request) -> Services:
    """Return the services of the application that answers `request`."""
    return request.app.state.services


async def _services(request: Request) -> Services:
    return services_of(request)


ServicesDep = Annotated[Services, Depends(_services)]


async def _end_with_client(request: Request) -> None:
    context_of(request.scope).end_with_client()


EndsWithClient = Depends(_end_with_client)
"""For a route that changes nothing before its one commit: it ends when its client leaves, as a GET does."""


def _known_form(value: Any) -> UUID:
    if isinstance(value, UUID):
        return value
    if not isinstance(value, str):
        raise PydanticCustomError("wrong_type", "Must be a string.")
    return parse_id(value) or _NOBODYS


_NOBODYS = UUID(int=0)
Id = Annotated[UUID, BeforeValidator(_known_form)]
"""An id in a path or query. Text that is not a canonical UUID becomes an id of no object: 404."""


async def caller_of(request: Request) -> Caller:
    """Return the caller of the request; found once, however many dependencies ask.

    Raises:
        Unauthenticated: there is no valid credential.
        Problem: 400, two different credentials; 403, a cookie that another site's page sent.
    """
    context, services = context_of(request.scope), services_of(request)
    if context.caller is None:
        credential = find_credential(request.scope["headers"])
        if credential is None or not credential.text:
            raise Unauthenticated("not_authenticated", "This needs a key or a session; see /auth.md.")
        if credential.is_cookie:
            cookies.refuse_foreign(request, services.settings.address)
        context.caller = await services.credentials.find(credential)
        structlog.contextvars.bind_contextvars(account_id=str(context.caller.account_id))
        if context.caller.kind == "key":
            services.housekeeping.count_use(context.caller.credential_id)
    services.database.lend_to(str(context.caller.account_id))
    return context.caller


class Authorisation(SecurityBase):
    """A check that a credential has a scope. In OpenAPI, the scope is in the operation's `security`."""

    def __init__(self, scope: str | None, *, session_only: bool = False, proven: bool = False) -> None:
        if session_only:
            self.model = BearerScheme(bearerFormat="JWT", description="A session's token.")
        else:
            self.model = BearerScheme(description="A session token or an API key; a key also as X-API-Key.")
        self.scheme_name = SESSION_SCHEME if session_only else "bearer"
        self.scope = scope
        self.session_only = session_only
        self.proven = proven

    async def __call__(self, request: Request) -> Caller:
        """Return the caller.

        Raises:
            Unauthenticated: there is no valid credential.
            Forbidden: the wrong kind of credential, or one without the scope.
        """
        caller = await caller_of(request)
        if request.scope["path"].startswith(AGENT_PREFIX) and caller.kind != "key":
            raise Forbidden("api_key_required", "This path needs an API key, not a session.")
        if self.session_only and caller.kind != "session":
            raise Forbidden("session_required", "This needs a session: log in with e-mail and password.")
        if self.scope is not None and self.scope not in caller.scopes:
            raise Forbidden("insufficient_scope", f"The key lacks the scope {self.scope}.")
        if self.proven and caller.lacks_proof:
            raise Forbidden("password_required", "Give the password again: POST /app/session/proof.")
        return caller


def require_scope(scope: str | None, *, session_only: bool = False, proven: bool = False) -> Any:
    """Return the dependency that passes the caller to a route. Paths under /api/agent/ refuse sessions.

    Use it as `caller: Annotated[Caller, require_scope("workflows")]`.

    Args:
        scope: the scope that the caller needs; None for any valid credential.
        session_only: refuse keys.
        proven: refuse a browser's session whose password was not given in the last minutes.
    """
    scopes = [] if scope is None else [scope]
    return Security(Authorisation(scope, session_only=session_only, proven=proven), scopes=scopes)


def actor(request: Request, caller: Caller) -> Actor:
    """Return the caller in the form of the audit log."""
    context = context_of(request.scope)
    return Actor(
        account_id=caller.account_id,
        kind=caller.kind,
        id=caller.credential_id,
        name=caller.name,
        request_id=context.request_id,
        ip=context.client,
        source=context.source,
    )


def rules_for(services: Services, caller: Caller) -> Rules:
    """Return the rules for a workflow that this caller saves."""
    networks = services.settings.allow_private_networks
    return Rules(networks, "lookups" in caller.scopes, lookup_fields(), answer_shapes())


@contextmanager
def needs_engine() -> Generator[None]:
    """Answer 503 if the Temporal server is unreachable during calls of `services.temporal`.

    The lazy client reports a failed first connection as a bare `RuntimeError`.
    """
    try:
        yield
    except RuntimeError as error:
        raise Unavailable("engine_unavailable", "The workflow engine is away; try again shortly.") from error
