"""HTTP itself: paths, hosts, methods, headers, and two requests that look like one."""

from __future__ import annotations

import json
from uuid import uuid4

from bench.abuse.cases import Tally, case
from bench.abuse.target import Target

_GET = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
_SMUGGLED = "GET /api/credits HTTP/1.1\r\nHost: localhost\r\n\r\n"
_POST = "POST /api/auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

_AMBIGUOUS = {
    "a length and chunks": _POST
    + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + _SMUGGLED,
    "chunks, then a length": _POST
    + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + _SMUGGLED,
    "two lengths": _POST + "Content-Length: 0\r\nContent-Length: 44\r\n\r\n" + _SMUGGLED,
    "a length with a sign": _POST + "Content-Length: +0\r\n\r\n" + _SMUGGLED,
    "a length that is a list": _POST + "Content-Length: 0, 44\r\n\r\n" + _SMUGGLED,
    "chunks of another kind": _POST + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + _SMUGGLED,
    "chunks twice": _POST + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + _SMUGGLED,
    "a space before the colon": _POST + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + _SMUGGLED,
    "a folded header": _POST + "Transfer-Encoding:\r\n chunked\r\nContent-Length: 0\r\n\r\n" + _SMUGGLED,
    "a chunk of negative size": _POST + "Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n" + _SMUGGLED,
    "a giant chunk size": _POST + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n" + _SMUGGLED,
}  # fmt: skip


@case("A11 smuggling", "lengths and chunks that contradict each other, odd spellings of both")
async def smuggling(target: Target, tally: Tally) -> None:
    """Check that ambiguous requests are refused and close the connection: nothing after them is answered."""
    for name, text in _AMBIGUOUS.items():
        with tally.timed():
            answer = await target.exchange(text.encode(), seconds=1)
        answers, first = answer.count(b"HTTP/1.1 "), answer[9:12].decode()
        # A first request that is complete in any reading may be answered; the second is then a separate
        # request.
        tally.check(answers <= 1 and first in ("400", "501", ""), name, f"{answers} answers, first {first}")


_PATHS = (
    "/../../../../etc/passwd", "/..%2f..%2f..%2fetc%2fpasswd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd",
    "/docs/../../etc/passwd", "/docs/..%2f..%2fetc/passwd", "/api/workflows/..%2f..%2fsecret.key",
    "/static/../secret.key", "/..\\..\\secret.key", "/data/secret.key", "/secret.key", "/.env",
    "/.git/config",
    "/first-account.json", "/etc/passwd%00.json", "/file:///etc/passwd", "/api/workflows/ingest/../../keys",
    "/api/%6b%65%79%73/../workflows", "/errors/..%2f..%2fREADME.md", "/api/keys;/../docs",
)  # fmt: skip


@case("A11 paths", "traversal in twenty spellings, files of ours")
async def path_traversal(target: Target, tally: Tally) -> None:
    """Check that no path leads to a file."""
    for path in _PATHS:
        sent = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        with tally.timed():
            answer = await target.exchange(sent.encode())
        status = answer[9:12].decode()
        leaked = b"root:" in answer or b'api_key":' in answer or b"[core]" in answer
        tally.check(status in ("400", "401", "404") and not leaked, path, status)


@case("A11 hosts", "foreign, doubled and missing Host headers, forwarded hosts")
async def foreign_hosts(target: Target, tally: Tally) -> None:
    """Check that only our own names are answered, and no client's header gets into addresses that we make."""
    for name, lines in {
        "foreign": "Host: evil.example\r\n",
        "foreign with our port": f"Host: evil.example:{target.address[1]}\r\n",
        "ours in front": "Host: localhost.evil.example\r\n",
        "user part": "Host: localhost@evil.example\r\n",
        "two": "Host: localhost\r\nHost: evil.example\r\n",
        "none": "",
        "empty": "Host: \r\n",
        "ours forwarded": "Host: evil.example\r\nX-Forwarded-Host: localhost\r\n",
    }.items():
        sent = f"GET /api/credits HTTP/1.1\r\n{lines}Connection: close\r\n\r\n"
        answer = await target.exchange(sent.encode())
        tally.check(answer[9:12] == b"400", name, answer[9:12].decode())
    account = await target.account()
    client = await target.client(
        Authorization=f"Bearer {account.secret}", X_Forwarded_Host="evil.example",
        Forwarded="host=evil.example",
        X_Forwarded_Proto="javascript", X_Original_URL="/api/keys", X_Rewrite_URL="/api/keys",
    )  # fmt: skip
    answer = await client.post("/api/workflows", json={"name": "w", "trigger": {"type": "webhook"}})
    tally.check(
        "evil" not in answer.text and answer.status_code == 201, "forwarded hosts", answer.status_code
    )
    answer = await client.post(
        f"/api/workflows/{answer.json()['id']}", headers={"X-HTTP-Method-Override": "DELETE"}
    )
    tally.check(answer.status_code == 405, "a method in a header", answer.status_code)
    for method in ("TRACE", "CONNECT", "PROPFIND", "DEBUG"):
        sent = f"{method} /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: canary\r\nConnection: close\r\n\r\n"
        answer_bytes = await target.exchange(sent.encode())
        tally.check(
            answer_bytes[9:12] in (b"400", b"405") and b"canary" not in answer_bytes,
            method,
            answer_bytes[9:12],
        )


@case("A12 header injection", "line ends in request ids, keys, names and paths; forged lines in the log")
async def header_injection(target: Target, tally: Tally) -> None:
    """Check that no client input adds a header to an answer, or a line to the log."""
    mark = uuid4().hex
    forged = json.dumps({"event": f"forged{mark}", "level": "info"})
    account = await target.account()
    for name, sent in {
        "a request id with a tab": f"{_GET}X-Request-Id: {mark}\tX-Injected: 1\r\nConnection: close\r\n\r\n",
        "a bare line feed": f"{_GET}X-Request-Id: {mark}\nX-Injected: 1\r\nConnection: close\r\n\r\n",
        "a bare return": f"{_GET}X-Request-Id: {mark}\rX-Injected: 1\r\nConnection: close\r\n\r\n",
        "in the path": "GET /%0d%0aX-Injected:%201 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        "in the query": "GET /api/workflows?cursor=%0d%0aX-Injected:1 HTTP/1.1\r\nHost: localhost\r\n"
        "Connection: close\r\n\r\n",
        "a log line in the path": f"GET /%0a{forged.replace(' ', '%20')} HTTP/1.1\r\nHost: localhost\r\n"
        "Connection: close\r\n\r\n",
    }.items():
        answer = await target.exchange(sent.encode())
        head = answer.partition(b"\r\n\r\n")[0].lower()
        tally.check(b"\r\nx-injected" not in head and b"\nx-injected" not in head, name, head[:80])
    answer = await account.key.post("/api/keys", json={"name": f"a\n{forged}\n", "scopes": ["lookups"]})
    tally.check(answer.status_code in (201, 400), "a log line in a name", answer.status_code)
    log = (target.stack.data / "logs" / "api.log").read_text(errors="replace")
    lines = [line for line in log.splitlines() if line.startswith('{"event": "forged')]
    tally.check(not lines, "no forged line stands in the log", len(lines))
