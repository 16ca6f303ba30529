"""Credentials: weaker ones that repeat or create what stronger ones may, other accounts, timing attacks."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx

from bench.abuse.cases import Tally, case
from bench.abuse.target import Account, Target
from models.accounts import keys


async def _new_key(creator: httpx.AsyncClient, *scopes: str, **fields: Any) -> httpx.Response:
    return await creator.post("/api/keys", json={"name": "abuse", "scopes": list(scopes), **fields})


async def _with_scopes(target: Target, account: Account, *scopes: str, **fields: Any) -> httpx.AsyncClient:
    created = await _new_key(account.session, *scopes, **fields)
    assert created.status_code == 201, created.text
    return await target.client(Authorization=f"Bearer {created.json()['key']}")


@case("A7 replays", "a weaker key or a session repeats the Idempotency-Key of what it may not do")
async def weaker_replays(target: Target, tally: Tally) -> None:
    """Check that stored answers go only to callers that may make the request."""
    account = await target.account()
    weak = await _with_scopes(target, account, "credits")
    workflow = await account.workflow([])
    asked = [
        (f"/api/workflows/{workflow['id']}/run", {"input": {"canary": 1}}),
        ("/api/agent/phone", {"phone": "+14155552671"}),
    ]
    for path, body in asked:
        headers = {"Idempotency-Key": uuid4().hex}
        first = await account.key.post(path, json=body, headers=headers)
        assert first.status_code < 300, first.text
        again = await account.key.post(path, json=body, headers=headers)
        tally.check(
            again.status_code == first.status_code, f"its own key repeats {path[:12]}", again.status_code
        )
        weaker = await weak.post(path, json=body, headers=headers)
        tally.check(weaker.status_code == 403, f"a key of credits repeats {path[:12]}", weaker.status_code)
        if path.startswith("/api/agent/"):
            session = await account.session.post(path, json=body, headers=headers)
            tally.check(session.status_code == 403, "a session repeats a key's lookup", session.status_code)
        stranger = await (await target.account(1)).key.post(path, json=body, headers=headers)
        tally.check("idempotent-replayed" not in stranger.headers, f"another account repeats {path[:12]}")


@case("A7 child keys", "keys that outlive, exceed or end the key that makes them")
async def child_keys(target: Target, tally: Tally) -> None:
    """Check that a key grants no more than it has: no scope, no day, and no end to a stronger key."""
    account = await target.account()
    soon = datetime.now(UTC) + timedelta(hours=1)
    parent = await _with_scopes(target, account, "keys", "lookups", expires_at=soon.isoformat())
    later = (soon + timedelta(days=365)).isoformat()
    for name, fields in {"no expiry": {}, "a later expiry": {"expires_at": later}}.items():
        child = await _new_key(parent, "lookups", **fields)
        ends = child.json().get("expires_at")
        within = child.status_code >= 400 or (ends is not None and datetime.fromisoformat(ends) <= soon)
        tally.check(within, f"a child with {name} ends with its parent", f"{child.status_code}, ends {ends}")
    child = await _new_key(parent, "lookups", "credits")
    tally.check(child.status_code == 403, "a scope that the parent lacks", child.status_code)
    stronger = (await _new_key(account.session, "keys", "lookups", "workflows", "credits")).json()
    for how in ("", "?permanent=true"):
        ended = await parent.delete(f"/api/keys/{stronger['id']}{how}")
        tally.check(ended.status_code == 403, f"a weaker key ends a stronger one {how}", ended.status_code)
    own = (await _new_key(parent, "lookups", expires_at=(soon - timedelta(minutes=1)).isoformat())).json()
    ended = await parent.delete(f"/api/keys/{own['id']}")
    tally.check(ended.status_code == 200, "a key ends one that is no stronger", ended.status_code)
    weak = await _with_scopes(target, account, "lookups")
    for path in (f"/api/keys/{own['id']}", f"/api/keys?id={stronger['id']}"):
        ended = await weak.delete(path)
        tally.check(ended.status_code == 403, "a key without the scope keys ends another", ended.status_code)
    listed = await weak.get("/api/keys")
    tally.check(listed.status_code == 403, "a key without the scope keys lists keys", listed.status_code)


@case("A7 other accounts", "ids of another account's workflow, run and key, on every route that takes one")
async def other_accounts(target: Target, tally: Tally) -> None:
    """Check that another account's id answers like an unknown one. The full matrix is in tests/tenancy."""
    owner, stranger = await target.account(), await target.account(1)
    workflow = await owner.workflow([])
    run = await owner.run(workflow, None)
    key = (await _new_key(owner.session, "lookups")).json()["id"]
    routes = [
        ("GET", "/api/workflows/{}", workflow["id"]), ("PATCH", "/api/workflows/{}", workflow["id"]),
        ("DELETE", "/api/workflows/{}", workflow["id"]),
        ("GET", "/api/workflows/{}/versions", workflow["id"]),
        ("POST", "/api/workflows/{}/run", workflow["id"]),
        ("POST", "/api/workflows/{}/test", workflow["id"]),
        ("GET", "/api/workflows/runs/{}", run["id"]), ("GET", "/api/workflows/runs/{}/events", run["id"]),
        ("POST", "/api/workflows/runs/{}/cancel", run["id"]),
        ("POST", "/api/workflows/runs/{}/retry", run["id"]),
        ("DELETE", "/api/keys/{}", key),
    ]  # fmt: skip
    nobody = f"{workflow['id'][:14]}7{uuid4().hex[:3]}-{workflow['id'][19:]}"
    for method, path, taken in routes:
        body = {} if method in ("POST", "PATCH") else None
        seen: list[tuple[Any, ...]] = []
        for one in (taken, nobody):
            with tally.timed():
                answer = await stranger.key.request(method, path.format(one), json=body)
            document = {k: v for k, v in answer.json().items() if k not in ("instance", "request_id")}
            seen.append((answer.status_code, document))
        tally.check(seen[0] == seen[1] and seen[0][0] == 404, f"{method} {path}", seen[0][0])
    everything = [f"/api/workflows?limit={n}" for n in (1, 100)] + ["/api/workflows/runs?limit=100"]
    for path in everything:
        text = (await stranger.key.get(path)).text
        tally.check(workflow["id"] not in text and run["id"] not in text, f"{path} of a stranger")


@case("A8 key timing", "keys that are right but for their end, against wrong ones, interleaved")
async def key_timing(target: Target, tally: Tally) -> None:
    """Check that the response time to a wrong key does not depend on how much of it is right."""
    account, count = await target.account(), target.times(1500, 300)
    http = await target.client()
    most = 0.1 if target.full else 0.2

    async def refused(secret: str) -> float:
        start = time.perf_counter()
        answer = await http.get("/api/credits", headers={"Authorization": f"Bearer {secret}"})
        seconds = time.perf_counter() - start
        assert answer.status_code == 401
        return seconds

    near, far = list[float](), list[float]()
    for number in range(count):
        pair = [(near, _almost(account.secret)), (far, keys.new_secret())]
        for times, secret in pair[:: 1 if number % 2 else -1]:
            times.append(await refused(secret))
    effect = _superiority(near, far)
    tally.figures["effect"] = f"{effect:+.3f} (0: none, ±1: whole)"
    tally.check(abs(effect) < most, f"the effect is below {most}", f"{effect:+.3f}")


@case("A11 ingest tokens", "random tokens, right ones with a character changed, cut or lengthened")
async def ingest_tokens(target: Target, tally: Tally) -> None:
    """Check that a wrong token answers like any other, and starts nothing."""
    account = await target.account()
    workflow = await account.workflow([])
    path, _, token = workflow["webhook_url"].removeprefix(target.url).rpartition("/")
    http = await target.client()
    guesses = [uuid4().hex + uuid4().hex[:11] for _ in range(target.times(2000, 200))]
    changed = [
        token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :] for at in range(0, len(token), 4)
    ]
    near = [
        *changed,
        token[:-1],
        token + "A",
        token.swapcase(),
        f" {token}",
        f"{token}%00",
        "*",
        "%25",
        "'--",
    ]
    first: Any = None
    for guess in (*guesses, *near):
        with tally.timed():
            answer = await http.post(f"{path}/{guess}", json={})
        seen = answer.status_code, answer.json()["code"], answer.json()["detail"]
        first = first or seen
        tally.check(seen == first and seen[0] == 404, "a wrong token", seen)
    answer = await http.post(f"{path}/{token}", json={})
    tally.check(answer.status_code == 202, "the right token", answer.status_code)
    runs = (await account.key.get(f"/api/workflows/runs?workflow_id={workflow['id']}")).json()["runs"]
    tally.check(len(runs) == 1, "runs of the workflow", len(runs))


def _almost(secret: str) -> str:
    """Return a well-formed key of which all but two random characters are right."""
    while True:
        body = secret.removeprefix(keys.PREFIX)[:24] + keys.new_secret()[-8:-6]
        if not secret.startswith(keys.PREFIX + body):
            return keys.PREFIX + body + keys._checksum(body)


def _superiority(some: list[float], others: list[float]) -> float:
    """Return Cliff's delta: how much likelier one of `some` is larger than one of `others`, from -1 to 1."""
    ordered = sorted(others)
    wins = sum(bisect_left(ordered, one) - (len(ordered) - bisect_right(ordered, one)) for one in some)
    return wins / (len(some) * len(others))
