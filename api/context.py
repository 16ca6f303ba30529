"""What the service knows of one request while it answers it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Scope

from api.auth.credentials import Caller
from models.audit import Source
from models.idempotency import Claim

_SCOPE_KEY = "vedette"
SOURCE = "vedette.source"
"""Where the scope of a request that a tool makes says so; a client cannot set it."""


@dataclass(slots=True)
class RequestContext:
    """One request.

    Attributes:
        request_id: on every answer, in every problem document, and on every log line of the request.
        source: by which door it came: a request of its own, or a tool of the MCP server.
        task: what answers it, if that is to end when the client goes before there is an answer.
        abandoned: whether it was ended for that.
        client: the client's address; what a trusted proxy says it is, else the peer's.
        headers: put on the answer, whichever it will be.
        started: `time.perf_counter()` when the request came.
        caller: who makes it, once someone has asked.
        idempotency_key: what the header says, on a route that takes it.
        claim: of that key, once it is made; `claim.id` names what must not happen twice.
    """

    request_id: str
    client: str | None
    headers: list[tuple[bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes]])
    started: float = field(default_factory=time.perf_counter)
    caller: Caller | None = None
    idempotency_key: str | None = None
    claim: Claim | None = None
    source: Source = "api"
    task: asyncio.Task[Any] | None = None
    abandoned: bool = False

    def end_with_client(self) -> None:
        """Have the request end when its client goes: it only reads, or changes nothing before it commits."""
        self.task = asyncio.current_task()

    def end_unanswered(self) -> None:
        """Cancel what the client waits for no more; Postgres ends its statement."""
        if self.task is not None and not self.abandoned:
            self.abandoned = True
            self.task.cancel()


def attach(scope: Scope, context: RequestContext) -> None:
    """Keep the context with its request."""
    scope[_SCOPE_KEY] = context


def known_context(scope: Mapping[str, object]) -> RequestContext | None:
    """The context of a request; None before it came to the middleware."""
    found = scope.get(_SCOPE_KEY)
    return found if isinstance(found, RequestContext) else None


def context_of(scope: Scope) -> RequestContext:
    """The context of a request that came through the middleware."""
    return scope[_SCOPE_KEY]
