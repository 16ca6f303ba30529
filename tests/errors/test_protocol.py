"""What is not a request, or never becomes one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from contextlib import AsyncExitStack

import pytest

from api.http import json_body, protocol
from tests.api_server import Api


async def exchange(api: Api, *parts: bytes) -> bytes:
    """Send bytes and read meanwhile, until the server closes: what it said, also where it hung up on us."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rsplit(":", 1)[1]))
    answer = bytearray()

    async def read() -> None:
        while part := await reader.read(65536):
            answer.extend(part)

    async with AsyncExitStack() as stack:
        stack.callback(writer.close)
        reading = asyncio.create_task(read())
        with contextlib.suppress(ConnectionError):
            for part in parts:
                writer.write(part)
                await writer.drain()
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(20):
                await reading
    return bytes(answer)


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
    answered = problem(await exchange(api, sent))
    assert answered["code"] == "bad_http"
    assert answered["type"] == f"{api.services.settings.address}/errors/bad_http"


@pytest.mark.parametrize(
    "codings", [b"gzip, chunked", b"identity, chunked", b"gzip\r\nTransfer-Encoding: chunked"]
)
async def test_a_body_in_another_transfer_coding_is_refused(api: Api, codings: bytes) -> None:
    head = b"POST /api/auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    sent = head + b"Transfer-Encoding: " + codings + b"\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    answered = problem(await exchange(api, sent))
    assert (answered["code"], answered["detail"]) == (
        "bad_http",
        "The only transfer coding of a body is chunked.",
    )


@pytest.mark.parametrize("line", [b"X-A: " + b"a" * 1000 + b"\r\n", b"X-A: a\r\n", b"a" * 1000])
async def test_a_head_that_never_ends_is_refused_at_its_limit(api: Api, line: bytes) -> None:
    count = protocol.MAX_HEAD_BYTES // len(line) + 2
    answer = await exchange(api, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-B: ", *[line] * count)
    assert problem(answer)["code"] == "bad_http"


GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = (
    b"POST /api/auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
SPAM = b"X-A: " + b"a" * 1000 + b"\r\n"
OVER = protocol.MAX_HEAD_BYTES * 3 // 2
"""Bytes of a head that is too long."""


def in_pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 100, 4096, 1 << 20])
@pytest.mark.parametrize(
    "sent",
    [
        GET + SPAM * (OVER // len(SPAM)) + b"\r\n",
        GET + b"X-A: " + b"a" * OVER + b"\r\n\r\n",
        GET + b"a" * OVER + b": b\r\n\r\n",
        GET + b"X: y\r\n" * (OVER // 6) + b"\r\n",
        b"GET /" + b"a" * OVER + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\r\n" * OVER,
        POST + b"2\r\n{}\r\n0\r\n" + SPAM * (OVER // len(SPAM)) + b"\r\n",
        POST + b"2\r\n{}\r\n0\r\nX-A: " + b"a" * OVER + b"\r\n\r\n",
        POST + b"2;x=" + b"a" * OVER + b"\r\n{}\r\n0\r\n\r\n",
    ],
    ids=["headers", "value", "name", "short headers", "request line", "blank lines", "trailers", "trailer",
         "chunk extension"],
)  # fmt: skip
async def test_a_head_that_is_too_long_is_refused_in_whatever_pieces_it_comes(
    api: Api, sent: bytes, size: int
) -> None:
    answer = await exchange(api, *in_pieces(sent, size))
    assert b"too long" in answer and b" 200 " not in answer


@pytest.mark.parametrize(
    "invalid", [b"nonsense\r\n\r\n", POST + b"no size\r\n", GET + SPAM * (OVER // len(SPAM)) + b"\r\n"],
    ids=["no request", "a broken body", "a long head"],
)  # fmt: skip
async def test_requests_before_an_invalid_one_are_answered_first(api: Api, invalid: bytes) -> None:
    answer = await exchange(api, (GET + b"\r\n") * 3 + invalid)
    assert re.findall(rb"HTTP/1\.1 (\d+)", answer) == [b"200", b"200", b"200", b"400"]
    assert b'"bad_http"' in answer


async def test_a_long_head_behind_other_requests_in_one_segment_is_refused(api: Api) -> None:
    answer = await exchange(api, (GET + b"\r\n") * 3 + GET + SPAM * (OVER // len(SPAM)) + b"\r\n")
    assert b"too long" in answer


@pytest.mark.parametrize("size", [100, 1 << 20])
async def test_a_body_does_not_count_as_head_nor_one_head_for_another(api: Api, size: int) -> None:
    """Each part but the last is near its own bound: a head, a body of many chunks, trailers, a head again."""
    near = SPAM * 60
    head = POST.replace(b"\r\n\r\n", b"\r\n" + near + b"\r\n")
    chunks = b"1\r\n \r\n" * 50_000 + b"2\r\n{}\r\n0\r\n" + near + b"\r\n"
    last = GET + near + b"Connection: close\r\n\r\n"
    answer = await exchange(api, *in_pieces((head + chunks) * 2 + last, size))
    assert re.findall(rb"HTTP/1\.1 (\d+)", answer) == [b"400", b"400", b"200"]
    assert b"too long" not in answer and answer.count(b'"invalid_input"') == 2


async def test_trailers_are_not_taken_for_headers(api: Api) -> None:
    trailers = b"0\r\nX-Request-Id: from-the-trailers\r\n\r\n"
    sent = POST + b"2\r\n{}\r\n" + trailers + GET + b"Connection: close\r\n\r\n"
    answer = await exchange(api, sent)
    assert b"from-the-trailers" not in answer and b"HTTP/1.1 200" in answer


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
