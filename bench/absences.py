"""The longest time in which nothing is accepted while parts are replaced, fail over, or are restored."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import ssl
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import httpx

from bench.shapes import SHAPES
from tests.datasets import write_small_datasets
from tests.stacks import StackProcess, eventually, free_port, vedette
from tests.topology.topology import BLOCKS, FAILOVER, WORKERS, Topology, patience

_PAUSE_SECONDS, _TIMEOUT_SECONDS, _CALM_SECONDS = 0.05, 10.0, 2.0
HEAD = f"{'':28}longest gap    it took  accepted   refused"


class Sender:
    """A client that posts an event every 50 ms, whatever becomes of those before."""

    def __init__(self, client: httpx.AsyncClient, path: str) -> None:
        self._client, self._path = client, path
        self._accepted, self._refused = list[float](), Counter[str]()

    async def show(self, name: str, do: Callable[[], Awaitable[object]]) -> None:
        """Send while something is done; print the longest time between two events that were accepted."""
        self._accepted, self._refused = [], Counter()
        async with asyncio.TaskGroup() as group:
            acting, number = group.create_task(_time(do)), 0
            while not acting.done():
                group.create_task(self._send(number := number + 1))
                await asyncio.sleep(_PAUSE_SECONDS)
        gap = max(after - before for before, after in pairwise(self._accepted))
        refused = ", ".join(f"{count} × {why}" for why, count in self._refused.items())
        took, accepted = acting.result(), len(self._accepted)
        print(f"{name:28}{gap:9.2f} s {took:8.1f} s {accepted:9}   {refused or 'none'}", flush=True)

    async def _send(self, number: int) -> None:
        said = "no answer"
        with contextlib.suppress(httpx.TransportError):
            event, named = SHAPES["pure"].event(number), {"Idempotency-Key": str(uuid4())}
            said = str((await self._client.post(self._path, json=event, headers=named)).status_code)
        if said == "202":
            self._accepted.append(time.perf_counter())
        else:
            self._refused[said] += 1


async def _time(do: Callable[[], Awaitable[object]]) -> float:
    await asyncio.sleep(_CALM_SECONDS)
    began = time.perf_counter()
    await do()
    took = time.perf_counter() - began
    await asyncio.sleep(_CALM_SECONDS)
    return took


@contextlib.asynccontextmanager
async def open_sender(url: str, key: str, trust: ssl.SSLContext | bool = True) -> AsyncGenerator[Sender]:
    """Create a workflow, and yield a client that posts its events."""
    async with httpx.AsyncClient(
        base_url=url, verify=trust, trust_env=False, timeout=_TIMEOUT_SECONDS, limits=httpx.Limits(),
        headers={"Authorization": f"Bearer {key}"},
    ) as client:  # fmt: skip
        answer = await client.post("/api/workflows", json=SHAPES["pure"].definition("gap", ""))
        yield Sender(client, urlsplit(answer.json()["webhook_url"]).path)


async def until_in_service(topology: Topology, former: set[str], lost: int) -> None:
    """Wait until all parts are ready, and workers beat in place of so many of before."""

    async def have_workers() -> bool:
        found = await topology.shifts()
        return len(found - former) >= lost and len(found) >= len(WORKERS)

    await eventually(topology.all_ready, patience(), "all parts are ready")
    await eventually(have_workers, patience(), "both workers beat")


async def measure_topology(topology: Topology) -> None:
    """Replace each worker and each API, one after the other; then lose the primary."""

    async def replace(names: list[str], lost: int) -> None:
        for name in names:
            former = await topology.shifts()
            await topology.machines.units[name].restart()
            await until_in_service(topology, former, lost)

    async def fail_over() -> None:
        primary = topology.machines.units["db1/postgresql"]
        primary.stopping = True  # it stays off
        primary.send(signal.SIGKILL)
        await topology.machines.do(BLOCKS[FAILOVER:])
        await until_in_service(topology, set(), len(WORKERS))

    async with open_sender(topology.url, topology.key, topology.trust) as sender:
        await sender.show("nothing", lambda: asyncio.sleep(_CALM_SECONDS))
        await sender.show("workers replaced", lambda: replace(WORKERS, 1))
        await sender.show("apis replaced", lambda: replace(["app1/vedette-api", "app2/vedette-api"], 0))
        await sender.show("failover of Postgres", fail_over)


async def measure_backup(folder: Path, settings: dict[str, str]) -> None:
    """Back up a stack that runs; then bring it back in another folder, at the same address."""
    folder.chmod(0o711)
    (folder / "passphrase").write_text("correct horse battery staple\n")
    given = str(folder / "vedette.backup"), "--passphrase-file", str(folder / "passphrase")
    settings = settings | {"VEDETTE_PORT": str(free_port())}
    for name in ("first", "second"):
        write_small_datasets(folder / name)
    stack = await StackProcess(folder / "first", **settings).ready()

    async def run(name: str, command: str) -> None:
        done = await asyncio.to_thread(vedette, folder / name, command, *given)
        assert done.returncode == 0, done.stderr

    async def restore() -> None:
        nonlocal stack
        await stack.stop()
        await run("second", "restore")
        stack = await StackProcess(folder / "second", **settings).ready()

    try:
        async with open_sender(stack.url, stack.api_key) as sender:
            await sender.show("backup", lambda: run("first", "backup"))
            await sender.show("stop, restore, start", restore)
    finally:
        await stack.stop()
