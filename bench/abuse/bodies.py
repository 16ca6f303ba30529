"""Bodies and heads that are too large, too slow, or contradictory."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import orjson

from bench.abuse.cases import Tally, case, milliseconds
from bench.abuse.target import Account, Target

_PIECE = b"10000\r\n" + b"a" * 0x10000 + b"\r\n"
_GIBIBYTE = 2**30


def _post(path: str, account: Account, *lines: str) -> bytes:
    head = [f"POST {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {account.secret}"]
    return "\r\n".join([*head, *lines, "", ""]).encode()


def _status(answer: bytes) -> int:
    return int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0


@case("A1 giant body", "1 GiB in chunks without a length; a length of 1 GiB; 2 MiB of JSON")
async def giant_bodies(target: Target, tally: Tally) -> None:
    """Check that a body is refused at its limit, and not after it has been read."""
    account = await target.account()
    workflow = await account.workflow([])
    paths = ("/api/agent/ip", "/api/workflows", workflow["webhook_url"].removeprefix(target.url))
    with tally.memory(target, 50):
        for path in paths:
            head = _post(path, account, "Content-Type: application/json", "Transfer-Encoding: chunked")
            with tally.timed():
                status, sent = await _pour(target, head)
            tally.check(status in (400, 413) and sent < _GIBIBYTE // 16, f"chunked to {path[:20]}", status)
            head = _post(path, account, "Content-Type: application/json", f"Content-Length: {_GIBIBYTE}")
            with tally.timed():
                status, _ = await _pour(target, head)
            tally.check(status == 413, f"a length of 1 GiB to {path[:20]}", status)
            with tally.timed():
                answer = await account.key.post(path, json={"a": "a" * 2**21})
            tally.check(answer.status_code == 413, f"2 MiB to {path[:20]}", answer.status_code)


async def _pour(target: Target, head: bytes) -> tuple[int, int]:
    """Send a head and up to 1 GiB of body until there is an answer; return its status, and the bytes sent."""
    reader, writer = await asyncio.open_connection(*target.address)
    sent, answering = 0, asyncio.ensure_future(reader.read(12))
    try:
        async with asyncio.timeout(30):
            with suppress(ConnectionError):
                writer.write(head)
                while not answering.done() and sent < _GIBIBYTE:
                    writer.write(_PIECE)
                    sent += len(_PIECE)
                    await writer.drain()
                    await asyncio.sleep(0)
            with suppress(ConnectionError):
                return _status(await answering), sent
        return 0, sent
    finally:
        answering.cancel()
        writer.close()


@case("A1 heads", "10,000 headers, a long line, 200 KiB in one segment or in many")
async def giant_heads(target: Target, tally: Tally) -> None:
    """Check that a head is bounded in whatever pieces it arrives."""
    start = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    heads = {
        "10,000 headers": b"".join(b"X-%d: %s\r\n" % (number, b"a" * 12) for number in range(10_000)),
        "one header of 70,000 bytes": b"X-A: " + b"a" * 70_000 + b"\r\n",
        "one header of 200 KiB": b"X-A: " + b"a" * 204_800 + b"\r\n",
        "a path of 200 KiB": b"",
    }
    for name, lines in heads.items():
        sent = start + lines + b"\r\n"
        if not lines:
            sent = start.replace(b"/healthz", b"/" + b"a" * 204_800) + b"\r\n"
        parts = [sent[at : at + 1000] for at in range(0, len(sent), 1000)]
        for how, pieces in (("one segment", [sent]), ("many", parts)):
            with tally.timed():
                answer = await target.exchange(*pieces)
            # If the server closes a connection while we still write, the answer may be lost.
            tally.check(_status(answer) in (0, 400, 414, 431), f"{name} in {how}", _status(answer))
    with tally.timed():
        answer = await target.exchange(b"X: " * 20_000 + b"\r\n" * 3)
    tally.check(_status(answer) in (0, 400), "what is not HTTP", _status(answer))


@case("A1 slow senders", "connections that send nothing, or a byte now and then; a neighbour meanwhile")
async def slow_senders(target: Target, tally: Tally) -> None:
    """Check that slow connections delay nobody; without a whole head they are closed after 30 s."""
    account, count = await target.account(), target.times(200, 40)
    head = _post("/api/agent/ip", account, "Content-Type: application/json", "Content-Length: 100")
    writers: list[asyncio.StreamWriter] = []
    ends: list[asyncio.Future[bytes]] = []
    for number in range(count):
        reader, writer = await asyncio.open_connection(*target.address)
        writer.write((head + b"{", head[:40])[number % 2])
        writers.append(writer)
        ends.append(asyncio.ensure_future(reader.read()))
    try:
        for _ in range(20):
            start = time.perf_counter()
            with tally.timed():
                answer = await account.key.get("/api/credits")
            tally.check(answer.status_code == 200 and time.perf_counter() - start < 1, "a neighbour's answer")
            for writer in writers[:10]:
                writer.write(b" ")
        if target.full:
            # Those without a whole body are closed after twice as long; tests/errors checks that.
            start = time.perf_counter()
            _, waiting = await asyncio.wait(ends[1::2], timeout=45)
            tally.figures["closed after"] = milliseconds(time.perf_counter() - start)
            tally.check(not waiting, "those without a head are closed", f"{len(waiting)} are open")
    finally:
        for end, writer in zip(ends, writers, strict=True):
            end.cancel()
            writer.close()
        await asyncio.gather(*ends, return_exceptions=True)


_JSONS = {
    "100,000 levels deep": b'{"ip":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "100,000 open objects": b'{"a":' * 100_000,
    "an integer of 5,000 digits": b'{"ip": ' + b"9" * 5000 + b"}",
    "NaN": b'{"ip": NaN}',
    "Infinity": b'{"ip": -Infinity}',
    "1e999": b'{"ip": 1e999}',
    "a lone surrogate": b'{"ip": "\\ud800"}',
    "raw surrogate bytes": b'{"ip": "\xed\xa0\x80"}',
    "an escaped NUL": b'{"ip": "a\\u0000b"}',
    "a raw NUL": b'{"ip": "a\x00b"}',
    "bad UTF-8": b'{"ip": "\xff\xfe"}',
    "UTF-16": '{"ip": "8.8.8.8"}'.encode("utf-16"),
    "a name with a NUL": b'{"ip": "8.8.8.8", "a\\u0000": 1}',
    "two documents": b'{"ip": "8.8.8.8"}{"ip": "8.8.8.8"}',
    "nothing": b"",
    "a comment": b'{"ip": /* no */ "8.8.8.8"}',
    "60,000 names": orjson.dumps({f"n{number}": number for number in range(60_000)}),
}


@case("A1 JSON", "depth, giant numbers, NaN, surrogates, NUL, bad encodings, to a lookup and to ingest")
async def bad_json(target: Target, tally: Tally) -> None:
    """Check that invalid JSON is refused quickly, on every route."""
    account = await target.account()
    ingest = (await account.workflow([]))["webhook_url"]
    # These are JSON, and an event may be any JSON; an empty one is `{}`.
    events = {"60,000 names", "nothing"}
    with tally.memory(target, 50):
        for name, body in _JSONS.items():
            for path in ("/api/agent/ip", "/api/workflows/validate", ingest):
                headers = {"Content-Type": "application/json"}
                start = time.perf_counter()
                with tally.timed():
                    answer = await account.key.post(path, content=body, headers=headers)
                seconds, status = time.perf_counter() - start, answer.status_code
                allowed = (202,) if path == ingest and name in events else (400, 413)
                if path.endswith("validate"):
                    allowed = (200, 400, 413)  # its answer lists the errors of a document
                tally.check(status in allowed and seconds < 1, f"{name} to {path[-20:]}", status)
    twice = b'{"ip": "1.1.1.1", "ip": "8.8.8.8"}'
    answer = await account.key.post(
        "/api/agent/ip", content=twice, headers={"Content-Type": "application/json"}
    )
    tally.check(answer.json().get("ip_address") == "8.8.8.8", "of a name that comes twice the last counts")


@case("A11 content types", "JSON under other names, forms and files where JSON belongs, files as events")
async def confused_content_types(target: Target, tally: Tally) -> None:
    """Check that a body matches its content type, or is refused, and cannot name a file of ours."""
    account = await target.account()
    body = b'{"ip": "8.8.8.8"}'
    for kind in ("text/plain", "text/html", "application/xml", "application/x-www-form-urlencoded",
                 "multipart/form-data; boundary=b", "application/jsonp", "application/json;json/other",
                 ""):  # fmt: skip
        answer = await account.key.post("/api/agent/ip", content=body, headers={"Content-Type": kind})
        allowed = (200, 415) if kind.startswith("application/json;") else (415,)
        tally.check(answer.status_code in allowed, f"a lookup as {kind or 'nothing'}", answer.status_code)
    ingest = await account.workflow([{"id": "all", "type": "transform", "config": {"expression": "trigger"}}])
    forged = {"files": [{"filepath": "/etc/passwd", "originalFilename": "x"}], "file": "/etc/passwd"}
    run = await account.run(ingest, forged)
    tally.check(run["output"] == forged, "a path in an event stays a string", run["output"])
    answer = await account.key.post(
        f"{ingest['webhook_url']}?wait=20", files={"data": ("../../etc/passwd", b"root:")}
    )
    tally.check(answer.status_code in (400, 415), "a file as an event", answer.status_code)
