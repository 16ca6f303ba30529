"""Sign-up and login: guessing from many addresses, probing for accounts, access behind a proxy."""

from __future__ import annotations

import asyncio
import statistics
import time
from uuid import uuid4

import httpx

from bench.abuse.cases import Tally, case, milliseconds
from bench.abuse.target import PASSWORD, Target

_PROXY = {"VEDETTE_TRUSTED_PROXIES": "127.0.0.1/32"}
# A tenth of the default number of guesses, for a tenth of the time.
_FEW = {"VEDETTE_LIMIT_LOGIN": "3/60"}


@case("logins", "guessing one e-mail's password from many addresses; locking its owner out from one")
async def guessed_logins(target: Target, tally: Tally) -> None:
    """Check that guesses for an e-mail are bounded over all addresses, and one address locks out nobody."""
    owner, victim, addresses = await target.new_account(), await target.new_account(), 60
    async with target.other_api(**_PROXY, **_FEW) as url:
        http = await target.client(url)

        async def login(email: str, password: str, address: str) -> int:
            body = {"email": email, "password": password}
            with tally.timed():
                answer = await http.post("/api/auth/login", json=body, headers={"X-Forwarded-For": address})
            return answer.status_code

        for _ in range(10):
            await login(owner.email, "not the right password", "203.0.113.9")
        status = await login(owner.email, PASSWORD, "203.0.113.9")
        tally.check(status == 429, "the address that guesses is stopped", status)
        status = await login(owner.email, PASSWORD, "203.0.113.10")
        tally.check(status == 200, "the owner comes in from elsewhere", status)
        answers: list[int] = []
        while len(answers) < addresses and 429 not in answers:
            some = [f"198.51.100.{len(answers) + more + 1}" for more in range(4)]
            guesses = (login(victim.email, "not the right password", address) for address in some)
            answers += await asyncio.gather(*guesses)
        tally.figures["guesses"] = f"{answers.count(401)} of one e-mail were tried, at 3 an address"
        tally.check(429 in answers, f"{addresses} guesses from as many addresses are stopped on the way")


@case(
    "sign-up tells", "registering e-mails that exist and that do not: what is said, in what time, how often"
)
async def who_is_registered(target: Target, tally: Tally) -> None:
    """Check that a refusal hides whether the e-mail has an account, takes as long, and is rarely allowed."""
    known = (await target.account()).email

    async def register(http: httpx.AsyncClient, email: str) -> httpx.Response:
        return await http.post("/api/auth/register", json={"email": email, "password": PASSWORD})

    http = await target.client()
    times: dict[str, list[float]] = {"known": [], "new": []}
    for _ in range(target.times(12, 5)):
        for which, some in times.items():
            start = time.perf_counter()
            with tally.timed():
                answer = await register(http, known if which == "known" else f"{uuid4().hex}@example.com")
            some.append(time.perf_counter() - start)
            if which == "known":
                said = f"{answer.json().get('code')} {answer.json().get('detail')}".lower()
                telling = [word for word in ("taken", "already", "exists") if word in said]
                tally.check(not telling and known not in answer.text, "a refusal gives no reason", telling)
    medians = {which: statistics.median(some) for which, some in times.items()}
    tally.figures["medians"] = " and ".join(map(milliseconds, medians.values()))
    ratio = max(medians.values()) / min(medians.values())
    tally.check(ratio < 1.5, "both take as long", f"{ratio:.1f} times")
    async with target.other_api(**_FEW) as url:
        http = await target.client(url)
        statuses = [(await register(http, known)).status_code for _ in range(6)]
        tally.check(statuses[-1] == 429, "e-mails tried from one address are few", statuses)
        status = (await register(http, f"{uuid4().hex}@example.com")).status_code
        tally.check(status == 429, "from then on a new e-mail is refused as a known one", status)


@case("doors behind a proxy", "sign-up and /metrics with a public URL, with trusted proxies")
async def doors_behind_a_proxy(target: Target, tally: Tally) -> None:
    """Check that access from this machine alone is closed behind a proxy on this machine."""
    for names in ({"VEDETTE_PUBLIC_URL": "https://vedette.example.com"}, _PROXY):
        [name] = names
        async with target.other_api(**names) as url:
            http = await target.client(url)
            body = {"email": f"{uuid4().hex}@example.com", "password": PASSWORD}
            answer = await http.post("/api/auth/register", json=body)
            tally.check(answer.status_code == 403, f"sign-up with {name}", answer.status_code)
            answer = await http.get("/metrics")
            tally.check(answer.status_code in (401, 403), f"/metrics with {name}", answer.status_code)
    answer = await (await target.client()).get("/metrics", headers={"X-Forwarded-For": "127.0.0.1"})
    tally.check(answer.status_code in (401, 403), "/metrics forwarded", answer.status_code)
