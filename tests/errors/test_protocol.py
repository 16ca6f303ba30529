"""What is not a request, or never becomes one."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack

import pytest

from api.http import json_body, protocol
from tests.api_server import Api


async def exchange(api: Api, *parts: bytes) -> bytes:
    """Send bytes, then read until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rsplit(":", 1)[1]))
    async with AsyncExitStack() as stack:
        stack.callback(writer.close)
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
            async with asyncio.timeout(10):
                return await reader.read()
        except ConnectionError:
            return b""


def problem(answer: bytes) -> dict[str, object]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/problem+json" in head.lower()
    return json.loads(body)


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: local\x00host\r\n\r\n",
    ],
)
async def test_what_is_not_http_is_answered_with_a_problem_document(api: Api, sent: bytes) -> None:
    assert problem(await exchange(api, sent))["code"] == "bad_http"


@pytest.mark.parametrize("line", [b"X-A: " + b"a" * 1000 + b"\r\n", b"X-A: a\r\n", b"a" * 1000])
async def test_a_head_that_never_ends_is_refused_at_its_limit(api: Api, line: bytes) -> None:
    count = protocol.MAX_HEAD_BYTES // len(line) + 2
    answer = await exchange(api, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-B: ", *[line] * count)
    assert problem(answer)["code"] == "bad_http"


async def test_a_head_within_its_limit_passes_on_a_connection_used_for_many(api: Api) -> None:
    for _ in range(3):
        headers = {f"x-{number}": "a" * 1000 for number in range(50)}
        assert (await api.http.get("/healthz", headers=headers)).status_code == 200


async def test_a_connection_that_asks_nothing_is_closed(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)
    assert await exchange(api) == b""
    assert await exchange(api, b"GET /healthz HT") == b""


async def test_a_body_that_does_not_come_is_not_waited_for_for_ever(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_body, "BODY_SECONDS", 0.2)
    answer = await exchange(
        api,
        b"POST /api/auth/login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
    )
    assert problem(answer)["code"] == "body_too_slow"
