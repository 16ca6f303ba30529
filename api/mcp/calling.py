"""Requests that a tool makes: to the application itself, in the caller's name, without a socket."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeAlias, cast
from urllib.parse import quote, urlencode
from uuid import UUID

import orjson
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from starlette.requests import Request
from starlette.types import Message, Scope

from api.context import AWAITS, CALLER, SOURCE, context_of
from api.deps import services_of
from api.http.catalogue import CATALOGUE
from models.errors import TooManyStreams
from services.run_waiter import Seen, Watcher

Ctx: TypeAlias = Context[Any, Any]
"""The context that the SDK passes to a tool."""

_KEPT_HEADERS = frozenset({
    b"host", b"authorization", b"x-api-key", b"x-forwarded-for", b"user-agent", b"traceparent",
})  # fmt: skip
# The interval at which a client is told that time passes.
_TELL_SECONDS = 1.0
_MOST_ERRORS, _LONGEST = 10, 400
_ID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
# Remedies for tools, where the catalogue's remedy is about requests.
_REMEDIES = {
    "invalid_input": "Mend what is listed, and call the tool again.",
    "not_found": "Check the id: a tool that lists has the ids that there are.",
    "version_mismatch": "Read it again with get_workflow, and make the change to that version.",
    "job_not_finished": "Call get_bulk_job with wait_seconds until it has ended.",
    "workflow_not_active": 'Activate it: update_workflow with the changes {"status": "active"}.',
}
# The running requests: the event loop itself keeps no reference to a task.
_under_way: set[asyncio.Task[Any]] = set()


class Refused(ToolError):
    """An unsuccessful answer, with the remedy in words.

    Attributes:
        code: of the problem document.
    """

    def __init__(self, problem: Mapping[str, Any], retry_after: str | None) -> None:
        self.code: str = problem["code"]
        super().__init__(_write_problem(problem, retry_after))


class Answer:
    """The application's answer."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.content = b""

    async def take(self, message: Message) -> None:
        """Receive one message of the answer: the `send` of its request."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode("latin-1") for name, value in message["headers"]}
        else:
            self.content += message.get("body", b"")


class InternalClient:
    """The application's own routes, for the tool that is called in this context."""

    def __init__(self, ctx: Ctx) -> None:
        self._ctx = ctx
        request = cast(Request, ctx.request_context.request)
        self._scope: Scope = request.scope
        self.services = services_of(request)
        self._awaits = False

    @property
    def address(self) -> str:
        """The public address of the service."""
        return self.services.settings.address

    async def get(self, path: str, **query: Any) -> Any:
        """Return the answer to GET; parameters that are None are left out.

        Raises:
            Refused: the answer is unsuccessful.
        """
        return await self._request("GET", path, query=query)

    async def post(self, path: str, body: Any = None, *, key: str | None = None, **query: Any) -> Any:
        """Return the answer to POST.

        Args:
            path: of the route.
            body: JSON; None for none.
            key: the Idempotency-Key.
            query: parameters; those that are None are left out.

        Raises:
            Refused: the answer is unsuccessful.
        """
        return await self._request("POST", path, body, {"idempotency-key": key}, query)

    async def patch(self, path: str, body: Any, *, version: int) -> Any:
        """Return the answer to PATCH, if the object still has this version.

        Raises:
            Refused: the answer is unsuccessful.
        """
        return await self._request("PATCH", path, body, {"if-match": f'"v{version}"'})

    async def delete(self, path: str, body: Any = None) -> Any:
        """Return the answer to DELETE; None for an empty one.

        Raises:
            Refused: the answer is unsuccessful.
        """
        return await self._request("DELETE", path, body)

    async def _request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str | None] | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the request to its end, even if the tool's caller has left."""
        answering = asyncio.create_task(self._send_request(method, path, body, headers or {}, query or {}))
        _under_way.add(answering)
        answering.add_done_callback(_under_way.discard)
        answer = await asyncio.shield(answering)
        if answer.status >= 400:
            raise Refused(orjson.loads(answer.content), answer.headers.get("retry-after"))
        if answer.headers.get("content-type") == "application/jsonl":
            return [orjson.loads(line) for line in answer.content.splitlines()]
        return orjson.loads(answer.content) if answer.content else None

    async def _send_request(
        self,
        method: str,
        path: str,
        body: Any,
        headers: Mapping[str, str | None],
        query: Mapping[str, Any],
    ) -> Answer:
        raw = b"" if body is None else orjson.dumps(body)
        given = {name: value for name, value in headers.items() if value is not None}
        messages: list[Message] = [{"type": "http.request", "body": raw, "more_body": False}]

        async def receive() -> Message:
            return messages.pop() if messages else await asyncio.Future[Message]()

        answer = Answer()
        scope = self._scope_of(method, path, given | ({"content-type": "application/json"} if raw else {}))
        wanted = {name: _write_parameter(value) for name, value in query.items() if value is not None}
        await self._scope["app"]({**scope, "query_string": urlencode(wanted).encode()}, receive, answer.take)
        return answer

    def _scope_of(self, method: str, path: str, headers: Mapping[str, str]) -> Scope:
        outer = self._scope
        kept = [header for header in outer["headers"] if header[0] in _KEPT_HEADERS]
        own = {"x-request-id": context_of(outer).request_id, **headers}
        return {
            **{name: outer[name] for name in ("type", "asgi", "http_version", "scheme", "client", "server")},
            "state": dict(outer["state"]),
            "method": method,
            "path": path,
            "raw_path": quote(path).encode(),
            "root_path": "",
            "headers": [*kept, *((name.encode(), value.encode()) for name, value in own.items())],
            # Those of the assistant come with a caller of their own.
            SOURCE: outer.get(SOURCE, "mcp"),
            CALLER: outer.get(CALLER),
            AWAITS: self._awaits,
        }

    @property
    def account_id(self) -> UUID:
        """The account that the tool acts for."""
        caller = context_of(self._scope).caller
        assert caller is not None, "the route of /mcp has found it"
        return caller.account_id

    def waiting(self, seconds: float) -> AbstractContextManager[None]:
        """Take one of the account's places for a wait; none without a wait.

        A run that is started afterwards is one for whose end somebody waits.

        Raises:
            ToolError: all places are taken.
        """
        if not seconds:
            return nullcontext()
        self._awaits = True
        return self._place()

    @contextmanager
    def _place(self) -> Generator[None]:
        try:
            place = self.services.streams.take(self.account_id)
        except TooManyStreams as refused:
            raise ToolError(f"{refused.code}: {refused.message}\nTry again in 5 seconds.") from None
        try:
            yield
        finally:
            place.release()

    async def follow(
        self,
        watch: AbstractContextManager[Watcher[Seen]],
        done: Callable[[Seen], int],
        total: int,
        seconds: float,
    ) -> None:
        """Watch an object until it has ended, and report its progress to the client.

        Args:
            watch: yields new findings about it.
            done: the finished part of `total`; `total` when it has ended.
            total: the whole of the work.
            seconds: after which watching stops, ended or not.
        """
        loop = asyncio.get_running_loop()
        started, reached, told = loop.time(), 0, -1.0
        with watch as watcher:
            while not self.services.waiter.closed:
                left = started + seconds - loop.time()
                if (seen := await watcher.next(min(_TELL_SECONDS, left))) is not None:
                    reached = done(seen)
                elapsed = loop.time() - started
                # Each report must exceed the one before: time passes, whether work progresses or not.
                share = 0 if reached >= total else elapsed / (elapsed + seconds + 1)
                if reached + share > told:
                    told = reached + share
                    await self._ctx.report_progress(told, total)
                if reached >= total or elapsed >= seconds:
                    return


def in_path(text: str) -> str:
    """Return an id as one segment of a path; `none` for other text, such as the name of another path."""
    return text if _ID.fullmatch(text) else "none"


def _write_parameter(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _write_problem(problem: Mapping[str, Any], retry_after: str | None) -> str:
    """Return the problem in the words for a model: what is wrong, where, and the remedy."""
    lines = [f"{problem['code']}: {problem['detail'][:1000]}"]
    errors = problem.get("errors", [])
    if errors:
        listed = [
            f"- {_place(error)[:200]}: {error['message'][:_LONGEST]} ({error['code']})"
            for error in errors[:_MOST_ERRORS]
        ]
        more = [f"- and {len(errors) - _MOST_ERRORS} more"] if len(errors) > _MOST_ERRORS else []
        lines = [f"{problem['code']}:", *listed, *more]
    if retry_after is not None:
        lines.append(f"Try again in {retry_after} seconds.")
    if remedy := _REMEDIES.get(problem["code"]) or getattr(CATALOGUE.get(problem["code"]), "remedy", None):
        lines.append(f"What to do: {remedy}")
    return "\n".join(lines)


def _place(error: Mapping[str, Any]) -> str:
    """Return the place in the arguments: `steps[2].config.expression`."""
    if error.get("parameter"):
        return str(error["parameter"])
    parts = [part.replace("~1", "/").replace("~0", "~") for part in error["pointer"].split("/")[1:]]
    place = "".join(f"[{part}]" if part.isdecimal() else f".{part}" for part in parts)
    return place.removeprefix(".") or "the arguments"
