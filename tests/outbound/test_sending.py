"""What `send` and a provider's client give back, and what they refuse to swallow."""

from __future__ import annotations

import asyncio
import errno
import gzip
import ssl
import tracemalloc
import zlib
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import aiohttp
import pytest

from outbound.client import Outbound
from outbound.errors import ForbiddenHeader, OutboundError
from outbound.faults import error_for
from outbound.requests import OutgoingRequest
from tests.outbound.conftest import Names, Request, Serve
from tests.outbound.raw import CONNECTION_HEADERS, LOOPBACK, response
from tests.stacks import eventually


async def test_a_request_arrives_as_it_was_given(serve: Serve) -> None:
    server = await serve()
    async with Outbound(LOOPBACK) as outbound:
        answer = await outbound.send(
            OutgoingRequest(
                "PATCH",
                server.url("/a%20b?c=d&c=e"),
                headers={"X-Trace": "1", "Content-Type": "application/json"},
                body=b'{"a":1}',
            )
        )
    request = server.requests[0]
    assert (request.method, request.target, request.body) == ("PATCH", "/a%20b?c=d&c=e", b'{"a":1}')
    assert request.headers["x-trace"] == "1"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"].startswith("vedette/")
    assert (answer.status, answer.body, answer.truncated) == (200, b"ok", False)


async def test_a_body_without_a_content_type_is_not_given_one(serve: Serve) -> None:
    server = await serve()
    async with Outbound(LOOPBACK) as outbound:
        await outbound.send(OutgoingRequest("POST", server.url(), body=b"raw"))
    assert "content-type" not in server.requests[0].headers


@pytest.mark.parametrize("status", [201, 204, 301, 404, 429, 500, 503])
async def test_every_status_is_an_answer(status: int, serve: Serve) -> None:
    server = await serve(response(status=status))
    async with Outbound(LOOPBACK) as outbound:
        assert (await outbound.send(OutgoingRequest("GET", server.url()))).status == status


async def test_headers_of_the_answer_are_in_lower_case_and_repeated_ones_joined(serve: Serve) -> None:
    server = await serve(response(b"", "X-One: a", "x-one: b", "X-Latin: caf\xe9"))
    async with Outbound(LOOPBACK) as outbound:
        headers = (await outbound.send(OutgoingRequest("GET", server.url()))).headers
    assert headers["x-one"] == "a, b"
    headers["x-latin"].encode()  # no lone surrogates, which no JSON can hold


@pytest.mark.parametrize("name", CONNECTION_HEADERS)
async def test_headers_that_describe_the_connection_are_refused(name: str, serve: Serve) -> None:
    server = await serve()
    async with Outbound(LOOPBACK) as outbound:
        with pytest.raises(ForbiddenHeader, match=f"header {name.lower()} "):
            await outbound.send(OutgoingRequest("POST", server.url(), headers={name: "999"}, body=b"1234"))
    assert server.connections == 0


async def test_the_encodings_that_are_accepted_are_ours(serve: Serve) -> None:
    server = await serve()
    async with Outbound(LOOPBACK) as outbound:
        await outbound.send(OutgoingRequest("GET", server.url(), headers={"Accept-Encoding": "br"}))
    assert server.requests[0].headers["accept-encoding"] == "gzip, deflate"


@pytest.mark.parametrize(
    "headers",
    [{"X-A": "1\r\nX-B: 2"}, {"X-A": "1\n2"}, {"X-A": "\x00"}, {"X A": "1"}, {"X-A:": "1"}, {"": "1"}],
)
async def test_a_header_that_would_break_out_of_its_line_is_refused(
    headers: dict[str, str], serve: Serve
) -> None:
    server = await serve()
    async with Outbound(LOOPBACK) as outbound:
        with pytest.raises(OutboundError) as refused:
            await outbound.send(OutgoingRequest("GET", server.url(), headers=headers))
    assert refused.value.code == "invalid_request"
    assert server.connections == 0


async def test_one_callers_cookies_are_not_anothers(serve: Serve) -> None:
    server = await serve(response(b"", "Set-Cookie: session=1; Path=/"))
    async with Outbound(LOOPBACK) as outbound:
        for _ in range(2):
            assert (
                "session=1"
                in (await outbound.send(OutgoingRequest("GET", server.url()))).headers["set-cookie"]
            )
        client = outbound.provider_client("any")
        for _ in range(2):
            await client.get(server.url())
    assert not any("cookie" in request.headers for request in server.requests)


async def test_connections_are_kept_for_the_next_call(serve: Serve) -> None:
    server = await serve()
    async with Outbound(LOOPBACK) as outbound:
        for _ in range(5):
            await outbound.send(OutgoingRequest("GET", server.url()))
    assert (server.connections, len(server.requests)) == (1, 5)


# Redirects


async def test_redirects_are_not_followed_unless_asked_for(serve: Serve) -> None:
    server = await serve(response(b"", "Location: /next", status=302))
    async with Outbound(LOOPBACK) as outbound:
        assert (await outbound.send(OutgoingRequest("GET", server.url()))).status == 302
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "method", "expected", "keeps_body"),
    [
        (301, "POST", "GET", False),
        (302, "POST", "GET", False),
        (303, "POST", "GET", False),
        (303, "PUT", "GET", False),
        (303, "HEAD", "HEAD", False),
        (301, "PUT", "PUT", True),
        (307, "POST", "POST", True),
        (308, "POST", "POST", True),
    ],
)
async def test_a_redirect_is_followed_as_rfc_9110_says(
    status: int, method: str, expected: str, keeps_body: bool, serve: Serve
) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        last = request.target == "/last"
        writer.write(response() if last else response(b"", "Location: /last", status=status))

    server = await serve(answer)
    async with Outbound(LOOPBACK) as outbound:
        answered = await outbound.send(
            OutgoingRequest(method, server.url(), headers={"X-Key": "k"}, body=b"data", follow_redirects=5)
        )
    assert answered.status == 200
    assert answered.url.endswith("/last")
    assert server.requests[1].method == expected
    assert server.requests[1].body == (b"data" if keeps_body else b"")
    assert server.requests[1].headers["x-key"] == "k"


async def test_no_credential_goes_to_another_origin(serve: Serve) -> None:
    there = await serve()
    here = await serve(response(b"", f"Location: {there.url()}", status=307))
    headers = {
        "Authorization": "Bearer s",
        "Cookie": "a=b",
        "X-Api-Key": "k",
        "X-Own": "o",
        "Accept": "text/plain",
    }
    async with Outbound(LOOPBACK) as outbound:
        await outbound.send(
            OutgoingRequest("POST", here.url(), headers=headers, body=b"x", follow_redirects=1)
        )
    sent = there.requests[0].headers
    assert not {"authorization", "cookie", "x-own"} & sent.keys()
    assert sent["accept"] == "text/plain"


@pytest.mark.parametrize(("follow", "requests"), [(1, 2), (5, 6), (50, 6)])
async def test_no_more_redirects_are_followed_than_allowed(follow: int, requests: int, serve: Serve) -> None:
    server = await serve(response(b"", "Location: /again", status=302))
    async with Outbound(LOOPBACK) as outbound:
        with pytest.raises(OutboundError) as ended:
            await outbound.send(OutgoingRequest("GET", server.url(), follow_redirects=follow))
    assert ended.value.code == "too_many_redirects"
    assert len(server.requests) == requests


# Limits


async def test_a_larger_answer_than_accepted_is_an_error(serve: Serve) -> None:
    server = await serve(response(b"x" * 1001))
    async with Outbound(LOOPBACK) as outbound:
        with pytest.raises(OutboundError) as refused:
            await outbound.send(OutgoingRequest("GET", server.url(), max_bytes=1000))
    assert refused.value.code == "too_large"


async def test_an_answer_of_just_the_size_accepted_is_whole(serve: Serve) -> None:
    server = await serve(response(b"x" * 1000))
    async with Outbound(LOOPBACK) as outbound:
        answer = await outbound.send(OutgoingRequest("GET", server.url(), max_bytes=1000))
    assert (len(answer.body), answer.truncated) == (1000, False)


async def test_a_larger_answer_is_cut_for_a_caller_who_wants_that(serve: Serve) -> None:
    server = await serve(response(b"abc" * 1000))
    async with Outbound(LOOPBACK) as outbound:
        answer = await outbound.send(OutgoingRequest("GET", server.url(), max_bytes=4, truncate=True))
    assert (answer.body, answer.truncated) == (b"abca", True)


async def test_an_endless_answer_ends_at_the_limit(serve: Serve) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    server = await serve(answer)
    async with Outbound(LOOPBACK) as outbound:
        with pytest.raises(OutboundError) as refused:
            await outbound.send(OutgoingRequest("GET", server.url()))
    assert refused.value.code == "too_large"


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(b"hello", mtime=0)),
        ("x-gzip", gzip.compress(b"hello", mtime=0)),
        ("deflate", zlib.compress(b"hello")),
        ("deflate", zlib.compress(b"hello")[2:-4]),
        ("identity", b"hello"),
    ],
)
async def test_a_compressed_answer_is_unpacked(encoding: str, packed: bytes, serve: Serve) -> None:
    server = await serve(response(packed, f"Content-Encoding: {encoding}"))
    async with Outbound(LOOPBACK) as outbound:
        answer = await outbound.send(OutgoingRequest("GET", server.url()))
        through_client = await outbound.provider_client("any").get(server.url())
    assert answer.body == b"hello"
    assert "content-encoding" not in answer.headers
    assert through_client.content == b"hello"


async def test_a_bomb_is_not_unpacked_beyond_the_limit(serve: Serve) -> None:
    bomb = gzip.compress(b"\0" * 200_000_000)
    server = await serve(response(bomb, "Content-Encoding: gzip"))
    async with Outbound(LOOPBACK) as outbound:
        tracemalloc.start()
        with pytest.raises(OutboundError) as refused:
            await outbound.send(OutgoingRequest("GET", server.url()))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert refused.value.code == "too_large"
    assert peak < 16 * 1024 * 1024


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("br", b"x"),
        ("zstd", b"x"),
        ("gzip, gzip", b"x"),
        ("gzip", b"plain"),
        ("gzip", gzip.compress(b"hello", mtime=0)[:-9]),
    ],
)
async def test_an_answer_that_cannot_be_unpacked_is_a_bad_response(
    encoding: str, body: bytes, serve: Serve
) -> None:
    server = await serve(response(body, f"Content-Encoding: {encoding}"))
    async with Outbound(LOOPBACK) as outbound:
        with pytest.raises(OutboundError) as refused:
            await outbound.send(OutgoingRequest("GET", server.url()))
    assert refused.value.code == "bad_response"


async def test_a_server_that_never_answers_times_out(serve: Serve) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    server = await serve(answer)
    async with Outbound(LOOPBACK) as outbound:
        with pytest.raises(OutboundError) as late:
            await outbound.send(OutgoingRequest("GET", server.url(), timeout=0.2))
        with pytest.raises(OutboundError) as also_late:
            await outbound.provider_client("any").get(server.url(), timeout=0.2)
    assert (late.value.code, late.value.retryable, also_late.value.code) == ("timeout", True, "timeout")


async def test_a_server_that_answers_a_byte_at_a_time_times_out(serve: Serve) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    server = await serve(answer)
    async with Outbound(LOOPBACK) as outbound:
        started = asyncio.get_running_loop().time()
        with pytest.raises(OutboundError) as late:
            await outbound.send(OutgoingRequest("GET", server.url(), timeout=0.3))
        assert asyncio.get_running_loop().time() - started < 2
    assert late.value.code == "timeout"


async def test_redirects_share_one_time_limit(serve: Serve) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.15)
        writer.write(response(b"", "Location: /again", status=302))

    server = await serve(answer)
    async with Outbound(LOOPBACK) as outbound:
        with pytest.raises(OutboundError) as late:
            await outbound.send(OutgoingRequest("GET", server.url(), timeout=0.3, follow_redirects=5))
    assert late.value.code == "timeout"


# Faults


async def test_a_port_where_nobody_listens_is_connect_failed(serve: Serve) -> None:
    reserved = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    port = reserved.sockets[0].getsockname()[1]
    reserved.close()
    await reserved.wait_closed()
    async with Outbound(LOOPBACK) as outbound:
        with pytest.raises(OutboundError) as failed:
            await outbound.send(OutgoingRequest("GET", f"http://127.0.0.1:{port}/"))
    assert (failed.value.code, failed.value.retryable) == ("connect_failed", True)


async def test_a_connection_that_fails_says_how_and_names_the_host_and_not_its_address(serve: Serve) -> None:
    async def hang_up(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await serve(hang_up)
    names = Names({"crm.example.com": [["127.0.0.1"]] * 9})
    told = {
        "http://crm.example.com:1999/": "The connection to crm.example.com was refused.",
        f"http://crm.example.com:{server.port}/": (
            "The connection to crm.example.com was closed without an answer."
        ),
    }
    async with Outbound(LOOPBACK, resolver=names) as outbound:
        for url, message in told.items():
            with pytest.raises(OutboundError) as failed:
                await outbound.send(OutgoingRequest("GET", url))
            assert (failed.value.code, str(failed.value)) == ("connect_failed", message)


@pytest.mark.parametrize(
    ("number", "told"),
    [(errno.ECONNRESET, "was reset"), (errno.ETIMEDOUT, "timed out"), (errno.EIO, "failed")],
)
def test_what_the_system_says_of_a_connection_is_told(number: int, told: str) -> None:
    error = error_for(aiohttp.ClientOSError(number, "to ('10.0.0.1', 443)"), "crm.example.com")
    assert (error.code, str(error)) == ("connect_failed", f"The connection to crm.example.com {told}.")


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"", "connect_failed"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "bad_response"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this", "bad_response"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "bad_response"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", "bad_response"),
    ],
)
async def test_a_broken_answer_is_an_error_with_a_code(answer: bytes, code: str, serve: Serve) -> None:
    async def hang_up(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await serve(hang_up)
    async with Outbound(LOOPBACK) as outbound:
        with pytest.raises(OutboundError) as failed:
            await outbound.send(OutgoingRequest("POST", server.url(), body=b"x"))
    assert failed.value.code == code


async def test_a_name_without_an_address_is_dns_failed() -> None:
    async with Outbound(LOOPBACK, resolver=Names({})) as outbound:
        with pytest.raises(OutboundError) as failed:
            await outbound.send(OutgoingRequest("GET", "http://nowhere.example/"))
    assert (failed.value.code, failed.value.retryable) == ("dns_failed", True)


async def test_a_name_that_spells_no_characters_is_dns_failed() -> None:
    async with Outbound(LOOPBACK, resolver=Names({})) as outbound:
        with pytest.raises(OutboundError) as caught:
            await outbound.send(OutgoingRequest("GET", "http://xn--zzzzzz/"))
    assert caught.value.code == "dns_failed"


async def test_a_certificate_must_be_of_the_name_that_was_asked_for(
    authority: tuple[Path, ssl.SSLContext], serve: Serve
) -> None:
    path, trusting = authority
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(path)
    server = await serve(certificates=serving)
    names = Names({"right.example": [["127.0.0.1"]], "wrong.example": [["127.0.0.1"]]})
    async with Outbound(LOOPBACK, resolver=names, certificates=trusting) as outbound:
        assert (
            await outbound.send(OutgoingRequest("GET", server.url(scheme="https", host="right.example")))
        ).status == 200
        with pytest.raises(OutboundError) as failed:
            await outbound.send(OutgoingRequest("GET", server.url(scheme="https", host="wrong.example")))
    assert failed.value.code == "tls_failed"
    assert len(server.requests) == 1


async def test_a_certificate_that_nobody_vouches_for_is_refused(
    authority: tuple[Path, ssl.SSLContext], serve: Serve
) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(authority[0])
    server = await serve(certificates=serving)
    async with Outbound(LOOPBACK, resolver=Names({"right.example": [["127.0.0.1"]]})) as outbound:
        with pytest.raises(OutboundError) as failed:
            await outbound.send(OutgoingRequest("GET", server.url(scheme="https", host="right.example")))
    assert failed.value.code == "tls_failed"
    assert server.requests == []


async def test_tls_spoken_to_a_plain_server_is_tls_failed() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 This is not TLS\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as plain, Outbound(LOOPBACK) as outbound:
        port = plain.sockets[0].getsockname()[1]
        with pytest.raises(OutboundError) as failed:
            await outbound.send(OutgoingRequest("GET", f"https://127.0.0.1:{port}/"))
    assert failed.value.code == "tls_failed"


# Retry-After


@pytest.mark.parametrize(
    ("value", "seconds"), [("0", 0), ("120", 120), ("soon", None), ("-5", None), ("", None), ("1.5", None)]
)
async def test_retry_after_in_seconds(value: str, seconds: float | None, serve: Serve) -> None:
    server = await serve(response(b"", f"Retry-After: {value}", status=429))
    async with Outbound(LOOPBACK) as outbound:
        assert (await outbound.send(OutgoingRequest("GET", server.url()))).retry_after() == seconds


@pytest.mark.parametrize("value", ["20 Nov 1995 19:12:08 -99999999999999", "20 Nov 99999999999 19:12:08 GMT"])
async def test_retry_after_on_a_day_that_no_calendar_has_is_not_read(value: str, serve: Serve) -> None:
    server = await serve(response(b"", f"Retry-After: {value}", status=503))
    async with Outbound(LOOPBACK) as outbound:
        assert (await outbound.send(OutgoingRequest("GET", server.url()))).retry_after() is None


async def test_retry_after_as_a_date(serve: Serve) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    past = format_datetime(datetime.now(UTC) - timedelta(seconds=90), usegmt=True)
    async with Outbound(LOOPBACK) as outbound:
        for value, least, most in ((soon, 80, 91), (past, 0, 0)):
            server = await serve(response(b"", f"Retry-After: {value}", status=503))
            waiting = (await outbound.send(OutgoingRequest("GET", server.url()))).retry_after()
            assert waiting is not None
            assert least <= waiting <= most


# Many at once


async def test_a_caller_that_gives_up_frees_its_place(serve: Serve) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.target == "/hang":
            await asyncio.Event().wait()
        writer.write(response(b"ok"))

    server = await serve(answer)
    async with Outbound(LOOPBACK, max_calls=2) as outbound:
        # One each: nobody has more than half of the places.
        hanging = [
            asyncio.create_task(outbound.send(OutgoingRequest("GET", server.url("/hang"), owner=owner)))
            for owner in "ab"
        ]
        await eventually(lambda: len(server.requests) == 2, what="both have a place")
        waiting = asyncio.create_task(outbound.send(OutgoingRequest("GET", server.url("/next"), owner="c")))
        done, _ = await asyncio.wait([waiting], timeout=0.2)
        assert not done and len(server.requests) == 2
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        assert (await waiting).body == b"ok"
