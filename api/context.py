"""The state of one request while the service answers it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Scope

from api.auth.credentials import Caller
from models.audit import Source
from models.idempotency import Claim

_SCOPE_KEY = "vedette"
SOURCE = "vedette.source"
"""The key in the scope of a request that a tool makes; a client cannot set it."""
CALLER = "vedette.caller"
"""The same, with the caller in whose name the tool makes it."""
AWAITS = "vedette.awaits"
"""The same; true if the tool waits for the end of the run that it starts."""


@dataclass(slots=True)
class RequestContext:
    """One request.

    Attributes:
        request_id: on every answer, in every problem document, and on every log line of the request.
        source: its origin: a request of its own, or a tool of the MCP server or of the assistant.
        task: the task that answers it, if it should end when the client leaves before the answer.
        abandoned: whether the task was ended for that.
        end_turn: lets the account's next message to the MCP server begin.
        client: the client's address: as reported by a trusted proxy, else the peer's.
        headers: added to the answer, whichever it will be.
        started: `time.perf_counter()` when the request arrived.
        caller: the caller, once a dependency has requested it.
        idempotency_key: the value of the header, on a route that accepts it.
        claim: of that key, once it is made; `claim.id` identifies the work that must not happen twice.
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
    end_turn: Callable[[], None] | None = None

    def end_with_client(self) -> None:
        """End the request when its client leaves: it only reads, or changes nothing before its commit."""
        self.task = asyncio.current_task()

    def end_unanswered(self) -> None:
        """Cancel a request whose client has left; Postgres ends its statement."""
        if self.task is not None and not self.abandoned:
            self.abandoned = True
            self.task.cancel()


def attach(scope: Scope, context: RequestContext) -> None:
    """Attach the context to its request."""
    scope[_SCOPE_KEY] = context


def known_context(scope: Mapping[str, object]) -> RequestContext | None:
    """Return the context of a request; None before it reached the middleware."""
    found = scope.get(_SCOPE_KEY)
    return found if isinstance(found, RequestContext) else None


def context_of(scope: Scope) -> RequestContext:
    """Return the context of a request that came through the middleware."""
    return scope[_SCOPE_KEY]
