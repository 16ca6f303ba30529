"""Requests that the service sends: their allowed destinations and headers."""

from __future__ import annotations

from typing import Any

from bench.abuse.cases import Tally, case
from bench.abuse.target import Target

_LOOPBACK = (
    "127.0.0.1", "127.1", "127.0.1", "127.0.0.3", "0x7f000001", "0x7f.1", "0177.0.0.1", "2130706433",
    "017700000001", "0", "0.0.0.0", "127.0.0.1.", "localhost", "localhost.", "LOCALHOST", "①②⑦.0.0.1",
    "１２７.0.0.1", "127。0。0。1",
    "[::]", "[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
    "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::1%25lo]", "ip6-localhost",
    "user@127.0.0.1",
    "example.com@127.0.0.1", "127.0.0.1%00.example.com", "127.0.0.1\\@example.com", "%31%32%37.0.0.1",
)  # fmt: skip
_OTHERS = (
    "http://10.0.0.1/", "http://172.16.0.1/", "http://192.168.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://[fd00:ec2::254]/", "http://metadata.google.internal/", "http://100.64.0.1/",
    "http://192.0.0.1/",
    "http://198.18.0.1/", "http://224.0.0.1/", "http://240.0.0.1/", "http://255.255.255.255/",
    "http://[fc00::1]/",
    "http://[fec0::1]/", "http://[fe80::1%25lo]/", "http://[ff02::1]/", "http://192.88.99.1/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:9/_x", "ftp://127.0.0.1/", "unix:///run/postgres.sock", "http://8.8.8.8:22/",
    "http://8.8.8.8:25/", "//127.0.0.1/", "http:127.0.0.1", "http://", "",
)  # fmt: skip
_REFUSALS = {
    "dns_failed", "forbidden_address", "invalid_request", "invalid_url", "name_not_resolved",
    "missing_value", "forbidden_port",
}  # fmt: skip


def _webhook(url: str, **config: Any) -> dict[str, Any]:
    retry = {"max_attempts": 1}
    return {"id": "send", "type": "webhook", "config": {"url": url, **config}, "retry": retry}


@case("A6 SSRF", "this machine and private networks in 60 spellings, by step, by event and by redirect")
async def forbidden_addresses(target: Target, tally: Tally) -> None:
    """Check that no connection is made to a non-public address: a listener on all addresses gets none."""
    account, port = await target.account(), target.forbidden
    record = target.stack.record
    own = [
        target.url,
        f"http://{record.temporal_address}/",
        *([record.temporal_ui] if record.temporal_ui else []),
    ]
    urls = [*(f"http://{host}:{port}/" for host in _LOOPBACK), *_OTHERS, *own]
    before = target.connections
    for url in urls[:: 1 if target.full else 4]:
        with tally.timed():
            answer = await account.key.post(
                "/api/workflows", json={"name": "w", "steps": [_webhook(url)], "trigger": {"type": "manual"}}
            )
        # A host name is only checked when it is resolved.
        tally.check(answer.status_code in (400, 201), f"saved: {url}", answer.status_code)
    each = _webhook("{{ item }}", timeout=5) | {
        "for_each": "trigger",
        "on_error": "continue",
        "max_concurrency": 10,
    }
    # One reachable address: if all items of a step failed, the whole step would fail without showing any.
    reachable = target.receiver.url
    run = await account.run(await account.workflow([each]), [*urls, reachable])
    for url, item in zip(urls, (run["output"] or [])[:-1], strict=True):
        code = ((item or {}).get("error") or {}).get("code", "none")
        tally.check(code in _REFUSALS, f"by an event: {url}", code)
    hops = [url for url in urls if url.isascii() and url and " " not in url]
    each = _webhook(
        f"{target.receiver.url}/to/{{{{ item }}}}", timeout=5, follow_redirects=True, success="2xx"
    )
    each |= {"for_each": "trigger", "on_error": "continue", "max_concurrency": 10}
    run = await account.run(await account.workflow([each]), hops)
    # The step fails if all of its items do; otherwise its output shows which did not.
    for url, item in zip(hops, run["output"] or [{"error": run["error"]}] * len(hops), strict=True):
        tally.check("error" in (item or {"error": 1}), f"by a redirect: {url}", item)
    heard = target.connections - before
    tally.figures["connections"] = str(heard)
    tally.check(heard == 0, "no connection arrives", heard)


_CONNECTION_HEADERS = (
    "Host", "host", "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "TE",
    "Trailer",
    "Transfer-Encoding", "transfer-encoding", "Upgrade", "Content-Length", "Proxy-Connection", "Expect",
)  # fmt: skip


@case("webhook headers", "Host, hop-by-hop headers and line ends in the headers of a webhook step")
async def webhook_headers(target: Target, tally: Tally) -> None:
    """Check that a step can neither set headers of the connection nor inject one by a value."""
    account = await target.account()
    for name in _CONNECTION_HEADERS:
        document = {"name": "w", "steps": [_webhook(target.receiver.url, headers={name: "evil.example"})]}
        answer = await account.key.post("/api/workflows", json=document)
        pointers = [one["pointer"] for one in answer.json().get("errors", [])]
        held = answer.status_code == 400 and pointers == [f"/steps/0/config/headers/{name}"]
        tally.check(held, f"saved: {name}", f"{answer.status_code} {pointers}")
    step = _webhook(target.receiver.url, headers={"X-Value": "{{ trigger.value }}"}, timeout=5)
    workflow = await account.workflow([step])
    for value in ("a\r\nX-Injected: 1", "a\nX-Injected: 1", "a\rX-Injected: 1", "\r\n\r\nGET / HTTP/1.1"):
        run = await account.run(workflow, {"value": value})
        tally.check(run["status"] == "failed", f"a value with a line end: {value!r}", run["status"])
    names = {name.lower() for request in target.receiver.requests for name, _ in request["headers"]}
    tally.check("x-injected" not in names, "no header is added")
    hosts = {v for r in target.receiver.requests for n, v in r["headers"] if n.lower() == "host"}
    tally.check(not any("evil" in host for host in hosts), "every Host is the URL's", hosts)
