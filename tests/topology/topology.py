"""The machines of docs/deploy.md under load: what was acknowledged and called, and what is in service."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import psutil
import psycopg

import settings
from bench.faulty_load import Receiver, Senders, receiving
from execution.shift import BEGIN_SECONDS
from tests.documentation import pages
from tests.stacks import eventually
from tests.topology.machines import Machines

PAGE = "docs/deploy.md"
BLOCKS = pages.read(PAGE)
FAILOVER = next(number for number, block in enumerate(BLOCKS) if "pg_ctl promote" in block.text)
"""The first block of the failover; those before set all up."""
BACK_SECONDS = 30.0
# How many processes there are for each processor of a machine that has nothing else to do.
_BUSY = 4.0
_LOOK_SECONDS = 0.05
_FRESH_SECONDS = 5.0
_APPS = {"app1": 31, "app2": 32}
WORKERS = [f"{app}/vedette-worker" for app in _APPS]


@dataclass
class Topology:
    """All parts, up. Programs of `bench` take it for a stack.

    Attributes:
        url: of the proxy.
        key: of the first account.
        ports: the ends of connections that each worker had on this machine, by its unit, while `watching`.
    """

    machines: Machines
    key: str
    ports: dict[str, set[int]] = field(default_factory=dict[str, set[int]])

    @property
    def url(self) -> str:
        return self.machines.url

    @property
    def trust(self) -> ssl.SSLContext:
        """Trusts the certificate of the proxy."""
        return ssl.create_default_context(cafile=self.machines.at("ca", "/etc/vedette/shared/ca.pem"))

    @property
    def settings(self) -> settings.Settings:
        """Settings as on app2, whose database is that which takes writes."""
        unit = self.machines.unit("app2", "vedette-api")
        url = f"{unit.environment['DATABASE_URL']}&target_session_attrs=read-write"
        return settings.load({**unit.environment, "DATABASE_URL": url})

    @property
    def worker_pids(self) -> list[int]:
        """The processes of the workers."""
        return [self.machines.units[name].pid for name in WORKERS]

    async def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a statement, from the server that takes writes."""
        url = self.settings.database_url
        assert url is not None
        async with await psycopg.AsyncConnection.connect(
            url.get_secret_value(), autocommit=True
        ) as connection:
            return await (await connection.execute(statement, values)).fetchall()  # type: ignore[arg-type]

    async def readyz(self, app: str) -> dict[str, str]:
        """Return what an API says of the parts that it needs; empty if it does not answer."""
        url = f"http://{self.machines.address(_APPS[app])}:8000"
        host = self.url.removeprefix("https://")
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=3) as client:
            with contextlib.suppress(httpx.HTTPError):
                answer = await client.get("/readyz", headers={"Host": host})
                return {part: said for part, said in answer.json()["checks"].items() if part != "data"}
        return {}

    async def all_ready(self) -> bool:
        """Return whether both APIs say that all parts work, and the proxy says so too."""
        said = await asyncio.gather(*(self.readyz(app) for app in _APPS))
        async with httpx.AsyncClient(
            base_url=self.url, verify=self.trust, trust_env=False, timeout=3
        ) as client:
            with contextlib.suppress(httpx.HTTPError):
                through = (await client.get("/readyz")).status_code == 200
                return through and all({*one.values()} == {"ok"} for one in said)
        return False

    async def shifts(self) -> set[str]:
        """The workers, by the ids of their shifts, that can begin calls."""
        found = await self.query(
            "select id::text from shifts where beat_at > now() - make_interval(secs => %s)", _FRESH_SECONDS
        )
        return {row[0] for row in found}

    @contextlib.asynccontextmanager
    async def watching(self, *units: str) -> AsyncGenerator[None]:
        """Record the ports of these workers meanwhile."""
        pids = {unit: self.machines.units[unit].pid for unit in units}

        async def look() -> None:
            while True:
                for unit, pid in pids.items():
                    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                        found = psutil.Process(pid).net_connections("tcp4")
                        self.ports.setdefault(unit, set()).update(one.laddr.port for one in found)
                await asyncio.sleep(_LOOK_SECONDS)

        looking = asyncio.create_task(look())
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)


@dataclass
class Load:
    """A steady load of every kind of run, and what came of it."""

    topology: Topology
    senders: Senders
    receiver: Receiver

    async def all_end(self) -> None:
        """Wait until every run that was acknowledged until now is completed."""
        seconds = patience()
        wanted = [UUID(one) for one in self.senders.acknowledged]
        left: list[tuple[Any, ...]] = []

        async def ended() -> bool:
            nonlocal left
            left = await self.topology.query(
                "select a.id, r.status, w.status, w.carrier, w.held, w.claim_id is not null,"
                " w.available_at - now() from unnest(%s::uuid[]) a (id) left join runs r using (id)"
                " left join run_work w on w.run_id = a.id"
                " where r.status is distinct from 'completed' limit 5",
                wanted,
            )
            return not left

        try:
            await eventually(ended, seconds)
        except AssertionError:
            shown = [(self.senders.acknowledged[str(row[0])], *row) for row in left]
            raise AssertionError(f"runs were lost or are stuck after {seconds} s: {shown}") from None

    def late_calls(self, unit: str, since: float, until: float) -> list[str]:
        """The calls of a worker that began within these times."""
        ports = self.topology.ports[unit]
        return [call.id for call in self.receiver.calls if since < call.at < until and call.port in ports]

    def repeated(self) -> int:
        """Return how many calls came again under their `webhook-id`."""
        return sum(count - 1 for count in Counter(call.id for call in self.receiver.calls).values())

    async def in_service(self, former: set[str] | None = None) -> float:
        """Wait until all parts are back, and new runs are accepted; how long that took.

        `former`: the shifts of before, where one of the workers was lost.
        """
        began, topology = time.monotonic(), self.topology

        async def working() -> bool:
            shifts = await topology.shifts()
            return len(shifts) >= len(WORKERS) and (former is None or not shifts <= former)

        before = len(self.senders.acknowledged)
        try:
            await eventually(topology.all_ready, patience(), "all parts are ready")
            await eventually(working, patience(), "both workers beat")
            await eventually(lambda: len(self.senders.acknowledged) > before, patience(), "runs are accepted")
        except AssertionError as error:
            said = {app: await topology.readyz(app) for app in _APPS}
            raise AssertionError(f"{error}: {said}\n{topology.machines.tails()}") from None
        took = time.monotonic() - began
        assert took < patience()
        return took


def patience() -> float:
    """Return how long a part may be away: longer only where others keep the machine busy many times over."""
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    return BACK_SECONDS * max(1.0, busy / _BUSY)


def deadline_after(moment: float) -> float:
    """The latest moment at which a worker begins a call, whose last beat was sent at `moment`."""
    return moment + BEGIN_SECONDS


@contextlib.asynccontextmanager
async def set_up(
    folder: Path, extra: dict[str, str], blocks: Sequence[pages.Block]
) -> AsyncGenerator[Topology]:
    """All parts as the page sets them up."""
    machines = Machines(folder, extra)
    try:
        await machines.do(blocks)
        first = Path(machines.at("app1", "/var/lib/vedette/first-account.json"))
        yield Topology(machines, json.loads(first.read_text())["api_key"])
    finally:
        await machines.stop()


@contextlib.asynccontextmanager
async def loaded(topology: Topology) -> AsyncGenerator[Load]:
    """The topology under load."""
    async with receiving() as receiver:
        senders = Senders(topology, receiver, verify=topology.trust)  # type: ignore[arg-type]
        await senders.open()
        try:
            yield Load(topology, senders, receiver)
        finally:
            await senders.stop()
