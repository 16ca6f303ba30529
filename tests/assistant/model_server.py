"""A model as a script: an OpenAI-compatible server that answers each request by the script's next line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Request = dict[str, Any]


@dataclass
class Say:
    """Text, in pieces."""

    text: str
    piece: int = 7


@dataclass
class Call:
    """Calls of tools: names with arguments, which may be any text."""

    calls: list[tuple[str, Any]]
    text: str = ""


def call(tool: str, **arguments: Any) -> Call:
    """One call of a tool."""
    return Call([(tool, arguments)])


@dataclass
class Fail:
    """An answer with an error."""

    status: int


@dataclass
class Stall:
    """A beginning, and then nothing until it is told to go on."""

    text: str = "Let me see"
    going_on: asyncio.Event = field(default_factory=asyncio.Event)
    rest: str = " on."
    then: Call | None = None


@dataclass
class Cut:
    """A beginning, and then the end of the connection."""

    text: str = "Let me see"


@dataclass
class Raw:
    """Data of events as they are, whatever the protocol says."""

    chunks: list[Any]


@dataclass
class Compute:
    """What the script does with a request that it has read."""

    of: Callable[[Request], Say | Call]


Line = Say | Call | Fail | Stall | Cut | Raw | Compute


class Model:
    """The server. Its last line is repeated for ever.

    Attributes:
        requests: what it was sent.
        script: what it answers, in order.
    """

    def __init__(self) -> None:
        self.requests = list[Request]()
        self.authorization = list[str | None]()
        self.script = list[Line]()
        self.url = ""
        self.redirect: str | None = None

    def results(self) -> list[str]:
        """The results of tools in the last request, as the model reads them."""
        return [one["content"] for one in self.requests[-1]["messages"] if one["role"] == "tool"]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(await request.json())
        self.authorization.append(request.headers.get("Authorization"))
        if self.redirect is not None:
            return web.Response(status=307, headers={"Location": self.redirect})
        line = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(line, Compute):
            line = line.of(self.requests[-1])
        if isinstance(line, Fail):
            return web.json_response(
                {"error": {"message": "no"}}, status=line.status, headers={"Retry-After": "0"}
            )
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        match line:
            case Say():
                for at in range(0, len(line.text), line.piece):
                    await _send(response, {"content": line.text[at : at + line.piece]})
                await _finish(response, "stop")
            case Call():
                if line.text:
                    await _send(response, {"content": line.text})
                for place, (tool, arguments) in enumerate(line.calls):
                    await _send_call(response, place, tool, arguments, len(self.requests))
                await _finish(response, "tool_calls")
            case Stall():
                await _send(response, {"content": line.text})
                await line.going_on.wait()
                await _send(response, {"content": line.rest})
                for tool, arguments in line.then.calls if line.then else ():
                    await _send_call(response, 0, tool, arguments, len(self.requests))
                await _finish(response, "tool_calls" if line.then else "stop")
            case Raw():
                for chunk in line.chunks:
                    await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            case Cut():
                await _send(response, {"content": line.text})
                assert request.transport is not None
                request.transport.abort()
        return response


async def _send(response: web.StreamResponse, delta: dict[str, Any], finish: str | None = None) -> None:
    chunk = {
        "id": "c", "object": "chat.completion.chunk", "created": 0, "model": "scripted",
        "choices": [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": finish}],
    }  # fmt: skip
    await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")


async def _send_call(
    response: web.StreamResponse, place: int, tool: str, arguments: Any, number: int
) -> None:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    head = {"index": place, "id": f"call_{number}_{place}", "type": "function"}
    await _send(response, {"tool_calls": [{**head, "function": {"name": tool, "arguments": ""}}]})
    for at in range(0, len(text), 50):
        piece = {"index": place, "function": {"arguments": text[at : at + 50]}}
        await _send(response, {"tool_calls": [piece]})


async def _finish(response: web.StreamResponse, reason: str) -> None:
    await _send(response, {}, reason)
    usage = {
        "id": "c", "object": "chat.completion.chunk", "created": 0, "model": "scripted", "choices": [],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }  # fmt: skip
    await response.write(b"data: " + json.dumps(usage).encode() + b"\n\ndata: [DONE]\n\n")


@asynccontextmanager
async def scripted_model() -> AsyncGenerator[Model]:
    """The server, on a port of its own."""
    model = Model()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", model.answer)
    runner = web.AppRunner(app, shutdown_timeout=0, access_log=None, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    model.url = f"http://127.0.0.1:{port}/v1"
    try:
        yield model
    finally:
        await runner.cleanup()
