"""The `Idempotency-Key` header, enabled by `dependencies=[Idempotent]` on a route."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from functools import partial, wraps
from typing import Annotated, Any, TypeAlias

import orjson
import psycopg
from fastapi import Depends, Header, Request
from fastapi.responses import Response
from pydantic import WithJsonSchema
from starlette.exceptions import HTTPException

import logs
from api.context import context_of
from api.deps import Services, caller_of, services_of
from api.http.json_body import StrictRequest
from api.problems import Problem
from database import AWAY, Connection
from models import idempotency
from models.errors import DomainError
from models.idempotency import Claim

MAX_KEY_LENGTH = 255
_PURPOSE = "idempotency"
# Ids are taken in capitals too, and name the same object.
_ID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_log = logs.get(__name__)
_answered: ContextVar[StrictRequest] = ContextVar("answered")

Endpoint: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]


class _Replay(Exception):
    """Carries a stored answer from the claim that found it to the route that returns it."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


# Shown only: what breaks it is an `invalid_idempotency_key` of its own.
_KeyText = Annotated[
    str,
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH, "pattern": "^[!-~]+$"}),
]
KeyHeader = Annotated[
    _KeyText | None,
    Header(
        alias="Idempotency-Key",
        description="Up to 255 visible ASCII characters. A repeat within 24 hours gets the first answer.",
    ),
]


async def _take(request: Request, idempotency_key: KeyHeader = None) -> None:
    if idempotency_key is not None:
        _check(idempotency_key)
        context_of(request.scope).idempotency_key = idempotency_key


async def refuse_key(
    idempotency_key: Annotated[str | None, Header(alias="Idempotency-Key", include_in_schema=False)] = None,
) -> None:
    """Refuse a request with a key, because its answer is a stream.

    Raises:
        Problem: 400 `idempotency_not_supported`.
    """
    if idempotency_key is not None:
        raise Problem(
            400, "idempotency_not_supported", "A stream cannot be replayed: send no Idempotency-Key."
        )


Idempotent = Depends(_take)
"""For a route that spends or starts: a repeat with the same key gets the first answer."""

NotIdempotent = Depends(refuse_key)
"""For a route that streams: the header is refused."""


def claiming(endpoint: Endpoint) -> Endpoint:
    """Make an endpoint refuse unknown parameters and claim the request's key first.

    FastAPI calls endpoints after all dependencies of the route have passed. So a request without permission,
    over a limit or with bad input is refused before a claim is made or a stored answer is found.
    """

    @wraps(endpoint)
    async def call_once(**values: Any) -> Any:
        request = _answered.get()
        request.refuse_bad_parameters()
        await _claim(request)
        return await endpoint(**values)

    return call_once


async def _claim(request: StrictRequest) -> None:
    services, context = services_of(request), context_of(request.scope)
    if context.idempotency_key is None:
        return
    caller = await caller_of(request)
    asked = idempotency.Request(
        account_id=caller.account_id,
        key=context.idempotency_key,
        method=request.method,
        path=_ID.sub(lambda id: id[0].lower(), request.url.path),
        fingerprint=hashlib.sha256(request.scope["query_string"] + b"\0" + await request.content()).digest(),
    )
    async with services.database.connection() as connection:
        claim = await idempotency.claim(connection, asked)
    if claim.answer is not None:
        raise _Replay(_open_response(services, claim))
    context.claim = claim


def claim_of(request: Request) -> Claim | None:
    """Return the claim of the request's key, or None.

    Only endpoints may call this: dependencies run earlier.
    """
    context = context_of(request.scope)
    assert context.idempotency_key is None or context.claim is not None, (
        "not claimed yet: ask in the endpoint"
    )
    return context.claim


async def answer_once(
    request: StrictRequest, handle: Callable[[Request], Coroutine[Any, Any, Response]]
) -> Response:
    """Handle a request; if it claimed a key, store a success for its repeats and release it on a refusal.

    After any other error the work may have been done: the repeat does it under the same claim.
    """
    _answered.set(request)
    context = context_of(request.scope)
    try:
        response = await handle(request)
    except _Replay as replay:
        return replay.response
    except Exception as error:
        if context.claim is not None:
            refused = isinstance(error, (DomainError, HTTPException))
            ended = idempotency.give_up if refused else idempotency.release
            await _write(services_of(request), partial(ended, claim=context.claim))
        raise
    if context.claim is not None:
        services, claim = services_of(request), context.claim
        if response.status_code < 400:
            answer = _seal_response(services, claim, response)
            await _write(services, partial(idempotency.store, claim=claim, answer=answer))
        else:
            await _write(services, partial(idempotency.give_up, claim=claim))
    return response


async def _write(services: Services, write: Callable[[Connection], Awaitable[None]]) -> None:
    """Write the outcome of a claim. Without the database it is written later, while the lease lasts."""
    try:
        async with services.database.connection() as connection:
            await write(connection)
    except psycopg.Error as error:
        _log.warning("idempotency_answer_not_stored", error=type(error).__name__)
        if isinstance(error, AWAY):
            services.housekeeping.write_later(write, idempotency.LEASE_SECONDS)


def _check(key: str) -> None:
    if not 0 < len(key) <= MAX_KEY_LENGTH or not all("!" <= character <= "~" for character in key):
        raise Problem(
            400, "invalid_idempotency_key",
            f"Idempotency-Key needs 1 to {MAX_KEY_LENGTH} visible ASCII characters.",
        )  # fmt: skip


def _seal_response(services: Services, claim: Claim, response: Response) -> bytes:
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.raw_headers]
    head = orjson.dumps({"status": response.status_code, "headers": headers})
    return services.keyring.seal(_PURPOSE, head + b"\n" + bytes(response.body), str(claim.id))


def _open_response(services: Services, claim: Claim) -> Response:
    assert claim.answer is not None
    head, _, body = services.keyring.open(_PURPOSE, claim.answer, str(claim.id)).partition(b"\n")
    stored = orjson.loads(head)
    response = Response(body, stored["status"])
    response.raw_headers = [
        (name.encode("latin-1"), value.encode("latin-1")) for name, value in stored["headers"]
    ]
    response.headers["Idempotent-Replayed"] = "true"
    return response
