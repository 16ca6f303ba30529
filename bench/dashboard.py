"""The dashboard in a browser: how soon its pages are there, and what they cost while they are looked at.

    python -m bench.dashboard [--runs 1000000] [--minutes 5] [--streams 100]

All pages belong to one account, which has so many finished runs. A page is there when its heading is and
nothing in it waits for an answer; each is loaded into an empty cache. While a page is live, two runs a second
come and go.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import psycopg
from playwright.async_api import BrowserContext, Page, Request

from bench import stored_runs
from bench.machine import machine
from bench.stack import Stack, unlimited
from tests.dashboard.browsing import Login, launched, sign_in

PAGES = [
    "",
    "/runs",
    "/runs/{run}",
    "/errors",
    "/workflows",
    "/workflows/{workflow}",
    "/monitors",
    "/lookup",
    "/approvals",
    "/account",
]
Work = Callable[[float], Awaitable[int]]
"""Starts runs for so many seconds; gives their number."""
_ROUNDS, _READINGS = 3, 4
_SECONDS_BETWEEN_RUNS = 0.5
_STEPS = [{"id": f"step_{n}", "type": "transform", "config": {"expression": "trigger"}} for n in range(3)]

# Notes when a page is there, and its longest task.
_WATCH = """
window.there = 0; window.longest = 0;
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) longest = Math.max(longest, one.duration);
}).observe({ type: "longtask", buffered: true });
new MutationObserver(() => {
  if (document.querySelector("[aria-busy=true]") || !document.querySelector("h1, h2")) there = 0;
  else there ||= performance.now();
}).observe(document, { subtree: true, childList: true, attributes: true });
"""
_READ = """async () => {
  while (!there || performance.now() - there < 500) await new Promise((next) => setTimeout(next, 50));
  const scripts = performance.getEntriesByType("resource").filter((one) => one.name.endsWith(".js"));
  return { there, longest, script: scripts.reduce((sum, one) => sum + one.encodedBodySize, 0) };
}"""


async def measure_pages(context: BrowserContext, ids: dict[str, str]) -> None:
    """Print how soon each page is there; the median of some rounds."""
    print("page                      there ms  longest task ms  script bytes")
    for path in PAGES:
        seen: list[dict[str, float]] = []
        for _ in range(_ROUNDS):
            page = await context.new_page()
            await _without_cache(page)
            await page.add_init_script(_WATCH)
            await page.goto(f"/app{path.format(**ids)}")
            seen.append(await page.evaluate(_READ))
            await page.close()
        there, longest, script = (
            statistics.median(one[name] for one in seen) for name in ("there", "longest", "script")
        )
        print(f"/app{path:<20}  {there:8,.0f}  {longest:15,.0f}  {script:12,.0f}")


async def _without_cache(page: Page) -> None:
    session: Any = await page.context.new_cdp_session(page)
    await session.send("Network.setCacheDisabled", {"cacheDisabled": True})


async def measure_idle(page: Page, seconds: float) -> None:
    """Print how many requests a tab sends in which nothing happens."""
    await page.goto("/app")
    await page.wait_for_load_state("load")
    await page.wait_for_timeout(3000)
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    await page.wait_for_timeout(seconds * 1000)
    page.remove_listener("request", note)
    print(f"an idle tab: {len(asked) / seconds * 60:.1f} requests a minute")


async def measure_heap(page: Page, seconds: float, work: Work) -> None:
    """Print how the heap of the first page grows while runs come and go."""
    await page.goto("/app")
    await work(min(seconds, 20))
    sizes, runs = [await _heap(page)], 0
    for _ in range(_READINGS):
        runs += await work(seconds / _READINGS)
        sizes.append(await _heap(page))
    read = ", ".join(f"{size:,.0f}" for size in sizes)
    print(f"a live page, {runs} runs in {seconds:.0f} s: heap {read} kB")


async def _heap(page: Page) -> float:
    session: Any = await page.context.new_cdp_session(page)
    await session.send("HeapProfiler.collectGarbage")
    return (await session.send("Runtime.getHeapUsage"))["usedSize"] / 1000


async def measure_streams(stack: Stack, login: Login, count: int, seconds: float, work: Work) -> None:
    """Print the API's processor time without and with so many open pages, as runs come and go."""
    alone = await _api_share(stack, seconds, work)
    headers = await _sign_in(stack.url, login)
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=stack.url, headers=headers, timeout=None, limits=limits, trust_env=False
    ) as client:
        heard = [0] * count
        streams = [asyncio.create_task(_read_stream(client, heard, n)) for n in range(count)]
        while not all(heard):
            assert not any(stream.done() for stream in streams), "a stream has ended"
            await work(_SECONDS_BETWEEN_RUNS)
        shared = await _api_share(stack, seconds, work)
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
    print(f"the API, two runs a second: {alone:.1%} of a processor; with {count} open pages {shared:.1%}")


async def _sign_in(url: str, login: Login) -> dict[str, str]:
    body = {"email": login.email, "password": login.password}
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        token = (await client.post("/api/auth/login", json=body)).raise_for_status().json()["token"]
    return {"authorization": f"Bearer {token}"}


async def _read_stream(client: httpx.AsyncClient, heard: list[int], number: int) -> None:
    async with client.stream("GET", "/api/stream") as stream:
        assert stream.status_code == 200, await stream.aread()
        async for line in stream.aiter_lines():
            heard[number] += bool(line)


async def _api_share(stack: Stack, seconds: float, work: Work) -> float:
    before = stack.cpu_seconds()["api"]
    await work(seconds)
    return (stack.cpu_seconds()["api"] - before) / seconds


async def fill(stack: Stack, api: httpx.AsyncClient, runs: int) -> dict[str, str]:
    """Store so many finished runs; return the ids of one and of its workflow."""
    made = (await api.post("/api/workflows", json={"name": "Three steps", "steps": _STEPS})).json()
    run = (await api.post(f"/api/workflows/{made['id']}/run?wait=20", json={"input": {}})).json()
    began = time.perf_counter()
    url = stack.settings.database_url
    assert url is not None
    async with await psycopg.AsyncConnection[tuple[Any, ...]].connect(
        url.get_secret_value(), autocommit=True
    ) as connection:
        there = await stored_runs.fill(connection, runs)
    print(f"{there:,} finished runs, stored in {time.perf_counter() - began:.0f} s")
    return {"workflow": made["id"], "run": run["id"]}


async def run(stack: Stack, options: argparse.Namespace) -> None:
    """Measure all of it."""
    seconds = options.minutes * 60
    await stack.change_worker({})
    account: dict[str, Any] = json.loads((stack.settings.data / "first-account.json").read_text())
    login = Login(account["email"], account["password"], stack.key)
    headers = {"authorization": f"Bearer {stack.key}"}
    async with httpx.AsyncClient(base_url=stack.url, headers=headers, timeout=60, trust_env=False) as api:
        ids = await fill(stack, api, options.runs)

        async def work(seconds: float) -> int:
            deadline, count = time.perf_counter() + seconds, 0
            while time.perf_counter() < deadline:
                (
                    await api.post(f"/api/workflows/{ids['workflow']}/run", json={"input": {}})
                ).raise_for_status()
                count += 1
                await asyncio.sleep(_SECONDS_BETWEEN_RUNS)
            return count

        async with launched() as browser:
            context = await browser.new_context(base_url=stack.url)
            await sign_in(context, login)
            await measure_pages(context, ids)
            page = await context.new_page()
            await measure_idle(page, min(seconds, 60))
            await measure_heap(page, seconds, work)
        await measure_streams(stack, login, options.streams, min(seconds, 30), work)


def main() -> None:
    """Read the options, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--streams", type=int, default=100)
    options = parser.parse_args()
    print(machine())
    with unlimited() as (runners, stack):
        runners.plain.run(run(stack, options))


if __name__ == "__main__":
    main()
