"""The outermost layer: request ids, client addresses, the host check, headers, metrics, and bugs."""

from __future__ import annotations

import asyncio
import os
import re
import time
import traceback
from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

import structlog
from fastapi.exceptions import ValidationException
from pydantic import ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import logs
import tracing
from api.context import CALLER, SOURCE, RequestContext, attach
from api.http import metrics
from api.http.catalogue import ProblemReport
from api.http.errors import answer_unexpected, answer_unfinished, problem_response
from api.http.routetable import RouteTable
from settings import Networks, Settings

_log = logs.get(__name__)
_REQUEST_ID = re.compile(rb"[A-Za-z0-9_-]{8,64}")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_READING = frozenset({"GET", "HEAD"})
_CLIENT_HAS_GONE = 499
"""The status in metrics, as in nginx, for a client that left before its answer."""
_OWN_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})

_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_CLOSED = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
_NO_STORE = (b"cache-control", b"no-store")
_HSTS = (b"strict-transport-security", b"max-age=31536000")


class RequestMiddleware:
    """Wraps the application; every answer passes through it."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._trusted = settings.trusted_proxies
        self._hosts = KnownHosts(settings)
        common = [*_HEADERS, _HSTS] if settings.address.startswith("https://") else _HEADERS
        self._api_headers = [*common, _CLOSED, _NO_STORE]
        self._other_headers = [*common, _CLOSED]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        host, request_id, forwarded, traceparent = _read_headers(scope["headers"])
        peer = scope["client"][0] if scope.get("client") else None
        client = client_address(peer, forwarded, self._trusted)
        source, caller = scope.get(SOURCE, "api"), scope.get(CALLER)
        context = RequestContext(request_id, client, source=source, caller=caller)
        attach(scope, context)
        if scope["method"] in _READING:
            context.end_with_client()
        # A pipelined request inherits the variables that the previous one has bound.
        structlog.contextvars.unbind_contextvars("account_id", "workflow_id", "run_id")
        structlog.contextvars.bind_contextvars(request_id=request_id, client=client)
        tracing.trace_work(tracing.Origin(traceparent, request_id))
        answer = _Answer(send, context, self._headers_for(scope["path"]))
        try:
            if self._hosts.know(host):
                await self._app(scope, receive, answer.send)
            else:
                refused = problem_response(
                    scope, ProblemReport(400, "unknown_host", "This service has another host name.")
                )
                await refused(scope, receive, answer.send)
        except asyncio.CancelledError:
            if context.abandoned:
                answer.status = _CLIENT_HAS_GONE
            elif answer.status or not scope["app"].state.services.stopping:
                raise
            else:
                # The server ends what is under way when the grace period is over, and would answer 500.
                await answer_unfinished(scope)(scope, receive, answer.send)
        except Exception as error:
            _log.error("unexpected_error", method=scope["method"], exception=describe_error(error))
            if answer.status:
                raise  # too late for another answer: the server closes the connection
            await answer_unexpected(scope)(scope, receive, answer.send)
        finally:
            routes: RouteTable = scope["app"].state.routes
            method = scope["method"] if scope["method"] in _METHODS else "other"
            metrics.observe(
                method, routes.template(scope), answer.status, time.perf_counter() - context.started
            )

    def _headers_for(self, path: str) -> list[tuple[bytes, bytes]]:
        closed = path.startswith("/api/") or path == "/mcp"
        return self._api_headers if closed else self._other_headers


class _Answer:
    """Adds our headers to the start of an answer, and records its status."""

    __slots__ = ("_context", "_headers", "_send", "status")

    def __init__(self, send: Send, context: RequestContext, headers: list[tuple[bytes, bytes]]) -> None:
        self._send = send
        self._context = context
        self._headers = headers
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own: list[tuple[bytes, bytes]] = list(message.get("headers", ()))
            present = {name for name, _ in own}
            context = self._context
            added = [(b"x-request-id", context.request_id.encode()), *context.headers, *self._headers]
            message["headers"] = own + [header for header in added if header[0] not in present]
        await self._send(message)


def describe_error(error: Exception) -> str:
    """Return the error with its traceback, without the values that a validation error repeats."""
    if not isinstance(error, ValidationError | ValidationException):
        return "".join(traceback.format_exception(error))
    wrong = [f"{'.'.join(map(str, item['loc']))}: {item['type']}" for item in error.errors()]
    frames = "".join(traceback.format_tb(error.__traceback__))
    return f"Traceback (most recent call last):\n{frames}{type(error).__name__}: {'; '.join(wrong)}"


def _read_headers(headers: Iterable[tuple[bytes, bytes]]) -> tuple[str | None, str, str, str | None]:
    """Return the host, the request id (the client's or a new one), forwarded addresses, and the trace."""
    host: str | None = None
    traceparent: str | None = None
    request_id = ""
    forwarded: list[str] = []
    for name, value in headers:
        if name == b"host":
            host = value.decode("latin-1") if host is None else ""  # two hosts count as none
        elif name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            request_id = value.decode()
        elif name == b"x-forwarded-for":
            forwarded.append(value.decode("latin-1"))
        elif name == b"traceparent":
            traceparent = tracing.read_traceparent(value.decode("latin-1"))
    return host, request_id or os.urandom(12).hex(), ",".join(forwarded), traceparent


def client_address(peer: str | None, forwarded: str, trusted: Networks) -> str | None:
    """Return the client's address: the last one in `X-Forwarded-For` that is not one of our own proxies.

    Args:
        peer: the connected peer.
        forwarded: the header's value; trusted only as far as trusted proxies wrote it.
        trusted: the networks of our proxies.
    """
    hops = [part.strip() for part in forwarded.split(",") if part.strip()]
    while hops and peer is not None and _is_within(peer, trusted):
        try:
            peer = str(ip_address(hops.pop()))
        except ValueError:
            break
    return peer


def _is_within(address: str, networks: Networks) -> bool:
    if not networks:
        return False
    try:
        parsed = ip_address(address)
    except ValueError:
        return False  # a Unix socket
    mapped = getattr(parsed, "ipv4_mapped", None) or parsed
    return any(mapped in network for network in networks)


class KnownHosts:
    """The host names of the service, in `Host` and `Origin` headers."""

    def __init__(self, settings: Settings) -> None:
        public = urlsplit(settings.address).hostname or ""
        public = f"[{public}]" if ":" in public else public
        self._names = frozenset({public, *_OWN_NAMES, *(host.lower() for host in settings.allowed_hosts)})
        self.any = "*" in settings.allowed_hosts

    def know(self, host: str | None) -> bool:
        """Return whether it is one of the names, possibly with a port."""
        if self.any or host is None:
            return host is not None
        match = _HOST.fullmatch(host)
        return match is not None and match[1].lower() in self._names
