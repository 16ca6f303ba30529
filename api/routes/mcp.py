"""The Model Context Protocol: tools for agents, over Streamable HTTP."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import Response
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Message, Receive, Scope, Send

from api.context import context_of
from api.deps import Caller, ServicesDep, require_scope
from api.http.json_body import StrictRequest, parse_json
from api.http.middleware import KnownHosts
from api.http.openapi import problems
from api.http.strict_route import StrictRoute
from api.problems import Problem
from models.errors import FieldError, Forbidden, Invalid
from settings import Settings

router = APIRouter(tags=["mcp"], route_class=StrictRoute)

_MESSAGES: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "One JSON-RPC message of the Model Context Protocol.",
        "content": {
            "application/json": {
                "schema": {"type": "object"},
                "example": {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
            }
        },
    }
}
# The SDK reports an unreadable message in JSON-RPC.
_ERRORS: dict[str, Any] = {"application/json": {"schema": {"type": "object"}}}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The answer, as a stream of events: progress first, where a tool tells of it.",
        "content": {
            "text/event-stream": {
                "schema": {"description": "Events with `event`, `id` and `data`, which is JSON."}
            },
            "application/json": {"schema": {"type": "object"}},
        },
    },
    202: {"description": "A notification was taken."},
    **problems("api_key_required", "forbidden_origin", "invalid_input"),
    406: {"description": "`Accept` lacks one of the two types that an answer may have.", "content": _ERRORS},
}
_ANSWERS[400]["content"] |= _ERRORS


class _Handed(Response):
    """A response of the SDK, for a body that was read already.

    The SDK takes milliseconds for a message, without a pause in which others are answered. So an account's
    messages are read in turns, each until its tool begins or its answer does.
    """

    def __init__(self, sessions: StreamableHTTPSessionManager, body: bytes, turn: asyncio.Semaphore) -> None:
        super().__init__()
        self._sessions = sessions
        self._turn = turn
        self._messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def replay_body() -> Message:
            return self._messages.pop() if self._messages else await receive()

        async def send_answer(message: Message) -> None:
            if message.get("body"):
                turn.close()
            # A client that does not read what it was sent before keeps no turn.
            blocked = asyncio.get_running_loop().call_soon(turn.close)
            try:
                await send(message)
            finally:
                blocked.cancel()

        with ExitStack() as turn:
            await self._turn.acquire()
            turn.callback(self._turn.release)
            context_of(scope).end_turn = turn.close
            await self._sessions.handle_request(scope, replay_body, send_answer)


@router.post(
    "/mcp",
    response_class=Response,
    openapi_extra=_MESSAGES,
    responses=_ANSWERS,
)
async def call_mcp(
    request: Request, caller: Annotated[Caller, require_scope(None)], services: ServicesDep
) -> Response:
    """Accept an MCP client's message: one at a time, no session, the credential in each request.

    Tools work like routes, with the scopes, limits and credits of the key.
    """
    if caller.kind != "key":
        raise Forbidden("api_key_required", "This path needs an API key, not a session.")
    _check_origin(request, services.settings)
    assert isinstance(request, StrictRequest)
    body = await request.raw()
    if request.media_type != "application/json":
        raise Problem(415, "unsupported_media_type", "Send JSON (application/json).")
    message = parse_json(body)
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise Invalid([FieldError("", "wrong_type", "Send one JSON-RPC 2.0 message: an object.")])
    # The SDK takes a request with such an id for a notification, which has no answer.
    if "id" in message and not _is_id(message["id"]):
        raise Invalid([FieldError("/id", "wrong_type", "Must be a string or an integer.")])
    return _Handed(services.mcp, body, services.locks.hold(("mcp", caller.account_id)))


def _is_id(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _check_origin(request: Request, settings: Settings) -> None:
    """Refuse pages of other sites, whatever name they gave this machine (DNS rebinding).

    Raises:
        Problem: 403 `forbidden_origin`.
    """
    origin = request.headers.get("origin")
    if origin is None:
        return
    hosts = KnownHosts(settings)
    try:
        host = urlsplit(origin).netloc
    except ValueError:  # such as http://[
        host = ""
    # If every host name is allowed, the page's own host must be the one that it calls.
    if not (host == request.headers.get("host") if hosts.any else hosts.know(host)):
        message = "A page of this origin may not call the service. VEDETTE_ALLOWED_HOSTS names further hosts."
        raise Problem(403, "forbidden_origin", message)
