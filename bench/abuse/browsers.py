"""Browsers: other sites that use their cookies, forms of the sign-in, and text planted in pages."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import httpx

from bench.abuse.cases import Tally, case
from bench.abuse.target import PASSWORD, Target
from tests.automations.engine import endpoint
from tests.dashboard.browsing import launched
from tests.dashboard.planting import PAGES, check_page, planting
from tests.dashboard.services import running
from tests.monitors.watching import Scanner

_OWN = {"sec-fetch-site": "same-origin"}
# What browsers send along with requests that pages of others make.
_FOREIGN: dict[str, dict[str, str]] = {
    "another site": {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
    "another port of this machine": {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:9000"},
    "a sandboxed frame": {"sec-fetch-site": "cross-site", "origin": "null"},
    "a bookmark": {"sec-fetch-site": "none"},
    "an old browser, another site": {"origin": "https://evil.example"},
    "an old browser, a sandboxed frame": {"origin": "null"},
    "an old browser that says nothing": {},
    "a site whose name begins like ours": {"origin": "http://127.0.0.1.evil.example"},
}
_TARGETS = [
    "//evil.example", "https://evil.example", "/\\evil.example", "/app//evil.example", "javascript:alert(1)",
    "/app/../..//evil.example", "\t//evil.example", "/api/auth/sessions",
]  # fmt: skip


async def _sign_in(target: Target, email: str, **fields: str) -> httpx.Response:
    http = await target.client()
    body = {"email": email, "password": PASSWORD, **fields}
    return await http.post("/app/session", data=body, headers=_OWN)


async def _signed_in(target: Target, email: str) -> tuple[httpx.AsyncClient, str]:
    """Return a client with the cookie of a new session, and the cookie."""
    answer = await _sign_in(target, email)
    cookie = answer.headers["set-cookie"].partition(";")[0]
    return await target.client(Cookie=cookie), cookie


@case(
    "other sites", "requests with a signed-in browser's cookie from other sites, ports, frames, old browsers"
)
async def foreign_requests(target: Target, tally: Tally) -> None:
    """Check that no request that another page can cause changes or reads anything."""
    owner = await target.new_account()
    browser, cookie = await _signed_in(target, owner.email)
    workflow: dict[str, Any] = {"name": "forged", "steps": []}
    for who, headers in _FOREIGN.items():
        for method, path in [
            ("POST", "/api/workflows"),
            ("DELETE", "/api/auth/sessions"),
            ("DELETE", "/app/session"),
        ]:
            answer = await browser.request(method, path, json=workflow, headers=headers)
            tally.check(
                answer.status_code in (403, 404, 405), f"{method} {path} from {who}", answer.status_code
            )
        plain = {**headers, "content-type": "text/plain"}
        answer = await browser.post(
            "/api/workflows", content=b'{"name": "forged", "steps": []}', headers=plain
        )
        tally.check(answer.status_code in (403, 415), f"a form of text from {who}", answer.status_code)
        override = {**headers, "x-http-method-override": "DELETE", "content-type": "application/json"}
        answer = await browser.post("/api/auth/sessions", content=b"{}", headers=override)
        tally.check(
            answer.status_code in (403, 405), f"another method in a header from {who}", answer.status_code
        )
    for who in ("another site", "another port of this machine", "a sandboxed frame"):
        for path in ("/api/workflows", "/api/stream"):
            answer = await browser.get(path, headers=_FOREIGN[who])
            tally.check(answer.status_code == 403, f"GET {path} from {who}", answer.status_code)
            shared = {name for name in answer.headers if name.startswith("access-control-")}
            tally.check(not shared, f"GET {path} is shared with {who}", shared)
    answer = await browser.get("/api/workflows", headers={"host": "rebound.example", **_OWN})
    tally.check(
        answer.status_code in (400, 403, 421), "a name that was bound to this address", answer.status_code
    )
    stranger = await target.new_account()
    answer = await browser.get("/api/workflows", headers={"authorization": f"Bearer {stranger.secret}"})
    tally.check(
        answer.json().get("code") == "conflicting_credentials", "a cookie and a key", answer.text[:100]
    )
    found = (await browser.get("/api/workflows", headers=_OWN)).json()
    tally.check(found["workflows"] == [], "nothing was made, and the session goes on", found)
    fixed = await target.client(Cookie=cookie.partition("=")[0] + "=fixed")
    tally.check(
        (await fixed.get("/api/workflows")).status_code == 401, "a cookie that somebody else has chosen"
    )


@case(
    "sign-in forms",
    "forms of other sites that sign in, addresses to be led to, links that are viewed or guessed",
)
async def sign_in_forms(target: Target, tally: Tally) -> None:
    """Check that only our own form signs in, leads nowhere else, and brings a session of its own."""
    owner = await target.new_account()
    body = {"email": owner.email, "password": PASSWORD}
    for who, headers in _FOREIGN.items():
        if who != "a bookmark":
            http = await target.client()
            answer = await http.post("/app/session", data=body, headers=headers)
            tally.check("set-cookie" not in answer.headers, f"{who} signs in", answer.status_code)
    for address in _TARGETS:
        answer = await _sign_in(target, owner.email, next=address)
        tally.check(
            answer.headers.get("location") == "/app", f"led to {address!r}", answer.headers.get("location")
        )
    cookies = {(await _signed_in(target, owner.email))[1] for _ in range(3)}
    tally.check(len(cookies) == 3, "each sign-in has a session of its own")
    http = await target.client()
    for token in ("", "x", "../session", "%2e%2e%2fsession", "0" * 64, "x" * 5000):
        answer = await http.get(f"/app/sign-in/{token}")
        tally.check(
            answer.status_code < 500 and "set-cookie" not in answer.headers, f"viewing link {token[:20]!r}"
        )
        answer = await http.post("/app/session", data={"link": token}, headers=_OWN)
        tally.check("set-cookie" not in answer.headers, f"guessing link {token[:20]!r}", answer.status_code)
    for path in ("/app", "/app/sign-in", "/app/runs"):
        answer = await http.get(path)
        policy = answer.headers.get("content-security-policy", "")
        tally.check("frame-ancestors 'none'" in policy, f"{path} in a frame", policy)


@case("ended sessions", "streams and pages of a session after its owner has ended it elsewhere")
async def ended_sessions(target: Target, tally: Tally) -> None:
    """Check that all open streams of a session end with it, and its cookie is good for nothing."""
    owner = await target.new_account()
    browser, _ = await _signed_in(target, owner.email)
    count = target.times(20, 3)

    async def follow() -> None:
        async with browser.stream("GET", "/api/stream", headers=_OWN) as stream:
            opened.append(stream.status_code)
            async for _ in stream.aiter_raw():
                pass

    opened: list[int] = []
    following = [asyncio.create_task(follow()) for _ in range(count)]
    while len(opened) < count:
        await asyncio.sleep(0.01)
    assert (await owner.session.delete("/api/auth/sessions")).is_success
    with tally.timed():
        done, left = await asyncio.wait(following, timeout=10)
    tally.check(not left, f"{count} streams end with their session", f"{len(done)} did")
    for one in left:
        one.cancel()
    answer = await browser.get("/api/workflows", headers=_OWN)
    tally.check(answer.status_code == 401, "the cookie is good for nothing", answer.status_code)


@case(
    "planted text",
    "markup, links and hidden characters in all that strangers can fill, in each page, in Chromium",
)
async def planted_text(_target: Target, tally: Tally) -> None:
    """Check that each page shows what strangers wrote as text alone."""
    scanner = Scanner()
    with tempfile.TemporaryDirectory(prefix="vedette-abuse-") as name:
        Path(name).chmod(0o711)
        async with endpoint() as served, endpoint() as called, launched() as browser:
            served.handler = scanner.handle
            async with (
                running(Path(name) / "data", served.url) as stack,
                planting(browser, stack, called, scanner) as planted,
            ):
                for page in PAGES:
                    try:
                        await check_page(planted, page)
                    except AssertionError as error:
                        tally.check(False, f"the page {page}", str(error)[:300])
                    else:
                        tally.check(True, f"the page {page}")
