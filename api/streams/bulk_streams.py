"""The answers of a bulk search as they come: as server-sent events, or as lines of JSON.

A stream without its last line is incomplete: the service stops, or the credential or database is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import orjson
import psycopg
from fastapi.sse import KEEPALIVE_COMMENT
from starlette.types import Send

import logs
from api.auth.credentials import Presented
from api.deps import Services
from api.stream_slots import SlotStream, StreamSlot
from models.errors import Unauthenticated
from providers.lookup.result import LookupResult
from services.bulk_searches import Answer, BulkSearch

_log = logs.get(__name__)
_LOOK_SECONDS = 0.5
_HEARTBEAT_SECONDS = 15.0

LINES_IN_A_ROW = 16
"""The number of answers written before other tasks run: within 2 ms."""

EVENTS = "text/event-stream"
LINES = ("application/jsonl", "application/x-ndjson", "application/jsonlines")


@dataclass
class Summary:
    """The counts of a stream.

    Attributes:
        total: the lines.
        found: those of paid queries.
        failed: those with an error.
        credits_used: the credits charged.
    """

    total: int
    found: int = 0
    failed: int = 0
    credits_used: int = 0

    def count(self, answer: Answer) -> None:
        """Count a line."""
        if isinstance(answer.outcome, LookupResult):
            self.found += answer.outcome.credits > 0
        else:
            self.failed += 1


@dataclass(frozen=True)
class Form:
    """The form of a stream: its first and last lines, those of answers, and the heartbeat."""

    media_type: str
    first: Callable[[Summary], bytes]
    line: Callable[[Any], bytes]
    last: Callable[[Summary], bytes]
    heartbeat: bytes = KEEPALIVE_COMMENT


def _data(value: Any) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"


def _comment(value: Any) -> bytes:
    return b": " + orjson.dumps(value) + b"\n\n"


def _json_line(value: Any) -> bytes:
    return orjson.dumps(value) + b"\n"


_DONE = b"data: [DONE]\n\n"

SEARCHES = Form(
    EVENTS,
    first=lambda summary: _data({"total": summary.total}),
    line=_data,
    last=lambda summary: _data({"credits_used": summary.credits_used}) + _DONE,
)
"""Events with the answers as data, preceded and followed by the totals."""

PROFILES = Form(
    EVENTS,
    first=lambda summary: _comment({"total": summary.total}),
    line=_data,
    last=lambda summary: _comment(summary) + _DONE,
)
"""Events with only answers as data: the totals are comments."""


def json_lines(media_type: str) -> Form:
    """Return the form of JSON lines; the last line is the summary."""
    return Form(
        media_type,
        first=lambda summary: b"",
        line=_json_line,
        last=lambda summary: _json_line({"type": "summary", **vars(summary)}),
        heartbeat=b"\n",
    )


class BulkStream(SlotStream):
    """A stream of answers. Lookups stop when the client has left."""

    def __init__(self, place: StreamSlot, form: Form, content: AsyncGenerator[bytes]) -> None:
        super().__init__(place, content, media_type=form.media_type, headers={"X-Accel-Buffering": "no"})
        self._content = content

    async def stream_response(self, send: Send) -> None:
        """Send the stream, and close it immediately on cancellation."""
        async with aclosing(self._content):
            await super().stream_response(send)


async def stream(
    services: Services, credential: Presented, search: BulkSearch, form: Form, shown: Callable[[Answer], Any]
) -> AsyncGenerator[bytes]:
    """Yield the answers of a search, each as soon as it is found and charged.

    Args:
        services: of the application.
        credential: the client's credential.
        search: a search that has not started yet.
        form: the form of the stream.
        shown: converts an answer to JSON.
    """
    loop = asyncio.get_running_loop()
    summary, sent = Summary(search.total), loop.time()
    yield form.first(summary)
    try:
        with search.under_way():
            while not search.ended:
                await services.credentials.find(credential)
                answers = await search.group(_LOOK_SECONDS)
                for start in range(0, len(answers), LINES_IN_A_ROW):
                    some = answers[start : start + LINES_IN_A_ROW]
                    yield b"".join(form.line(shown(answer)) for answer in some)
                    sent = loop.time()
                    await asyncio.sleep(0)
                for answer in answers:
                    summary.count(answer)
                if services.waiter.closed:
                    return
                if loop.time() - sent >= _HEARTBEAT_SECONDS:
                    yield form.heartbeat
                    sent = loop.time()
    except Unauthenticated:
        return
    except psycopg.Error as error:
        _log.warning("stream_cut", error=type(error).__name__)
        return
    summary.credits_used = search.credits_used
    yield form.last(summary)
