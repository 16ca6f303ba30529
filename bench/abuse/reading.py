"""Reading large objects, and watching by very many clients at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from typing import Any

import psycopg

from bench.abuse.cases import Tally, case, milliseconds
from bench.abuse.target import Account, Target

_MIB = 2**20
_AT_ONCE = 6
_LOADED = """
with text as (select to_json(string_agg(md5(n::text), '')) as value from generate_series(1, 32768) n),
steps as (
  insert into run_steps (run_id, step_id, position, status, attempts, gathered)
  select %(run)s, 'large_' || n, n, 'completed', 1, true from generate_series(1, %(steps)s) n
)
insert into run_step_items (run_id, step_id, item, status, output, attempts)
select %(run)s, 'large_' || n, item, 'completed', value, 1
from text, generate_series(1, %(steps)s) n, generate_series(0, 30) item
"""


async def _large_run(target: Target, account: Account) -> str:
    """Return an ended run whose steps gave 31 answers of 1 MiB each."""
    count = target.times(12, 4)
    steps = [
        {"id": f"large_{n}", "type": "transform", "config": {"expression": "'x'"}}
        for n in range(1, count + 1)
    ]
    workflow = await account.workflow([{"id": "wait", "type": "wait"}, *steps])
    started = await account.key.post(f"/api/workflows/{workflow['id']}/run", json={"input": None})
    run_id: str = started.json()["run_id"]
    await account.key.post(f"/api/workflows/runs/{run_id}/cancel")
    url = target.stack.record.database_url
    assert url is not None
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(_LOADED, {"run": run_id, "steps": count})
    return run_id


@case("large runs", "a run of 384 MiB read six times at once, and by twenty who do not read on")
async def large_runs(target: Target, tally: Tally) -> None:
    """Check that a read run is bounded, and so is the memory for it."""
    account, neighbour = await target.new_account(), await target.new_account()
    run_id = await _large_run(target, account)
    path = f"/api/workflows/runs/{run_id}"
    first = await account.key.get(path)
    tally.check(len(first.content) < 4 * _MIB, "a run has 4 MiB at most", len(first.content))
    before = target.resident_mib()["api"]
    reading = asyncio.gather(
        *(account.key.get(path) for _ in range(_AT_ONCE)),
        *(_drained(account, f"{path}/steps/large_1/output") for _ in range(_AT_ONCE)),
        account.key.get("/api/workflows/runs?include=input,output,steps"),
    )
    peak, slowest = await _watched(target, neighbour, reading)
    async with AsyncExitStack() as stack:
        for _ in range(20):
            _, writer = await asyncio.open_connection(*target.address)
            stack.callback(writer.close)
            head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {account.secret}\r\n\r\n"
            writer.write(head.encode())
        unread, waited = await _watched(target, neighbour, asyncio.sleep(2))
    peak, slowest = max(peak, unread), max(slowest, waited)
    tally.figures |= {"API rises by": f"{peak - before} MiB", "a neighbour waits": milliseconds(slowest)}
    tally.check(peak - before < 100, "the API's memory rises less than 100 MiB", peak - before)
    tally.check(slowest < 5, "a neighbour is answered meanwhile", milliseconds(slowest))


async def _drained(account: Account, path: str) -> int:
    read = 0
    async with account.key.stream("GET", path) as response:
        async for piece in response.aiter_raw():
            read += len(piece)
    return read


async def _watched(target: Target, neighbour: Account, work: Awaitable[Any]) -> tuple[int, float]:
    """Await work; return the API's most memory meanwhile, in MiB, and the longest wait of a neighbour."""
    task, peak, slowest = asyncio.ensure_future(work), 0, 0.0
    while not task.done():
        start = time.perf_counter()
        answer = await neighbour.key.get("/api/workflows")
        assert answer.status_code == 200
        slowest = max(slowest, time.perf_counter() - start)
        peak = max(peak, target.resident_mib()["api"])
        await asyncio.sleep(0.02)
    await task
    return peak, slowest


@case("many streams", "an account opens 120 streams of one run")
async def many_streams(target: Target, tally: Tally) -> None:
    """Check that an account's streams are limited, and a neighbour has its own."""
    account, neighbour = await target.new_account(), await target.new_account()
    async with AsyncExitStack() as stack:
        for one, wanted in ((account, 100), (neighbour, 2)):
            workflow = await one.workflow([{"id": "wait", "type": "wait"}])
            run = (await one.key.post(f"/api/workflows/{workflow['id']}/run", json={})).json()["run_id"]
            streams = [
                await stack.enter_async_context(client.stream("GET", f"/api/workflows/runs/{run}/events"))
                for client in (one.key, one.session)  # each has 100 connections at most
                for _ in range(60 if wanted > 2 else 1)
            ]
            opened = sum(stream.status_code == 200 for stream in streams)
            tally.check(opened == wanted, f"{wanted} streams are opened", opened)
            refused = {stream.status_code for stream in streams} - {200}
            tally.check(refused <= {429}, "others are refused", refused)
