"""An upgrade and a way back without a stop: two releases work side by side on one database, under load."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx
import psycopg
import pytest

from bench.faulty_load import Receiver, Senders, receiving, settle
from bench.stack import Stack
from embedded.postgres import Postgres
from embedded.report import Report
from embedded.temporal import Temporal
from migrations.revisions import head
from settings import Settings, load
from tests.releases.former import Part, Release, base_commit, former_release, has_history, this_release
from tests.stacks import environment, eventually, free_port

UNNAMED = "unnamed"
WITHIN = 180


@dataclass
class Installation:
    """Two servers, a data folder, and the processes of both releases."""

    names: dict[str, str]
    data: Path
    former: Release
    newer: Release
    parts: list[Part]

    @property
    def environment(self) -> dict[str, str]:
        return environment(self.data, **self.names)

    async def worker(self, release: Release) -> Part:
        """A worker that is ready."""
        part = release.start("worker", self.environment, self.data / "logs" / f"worker-{len(self.parts)}.log")
        self.parts.append(part)
        await eventually(
            lambda: "worker_ready" in part.said or not part.is_alive, WITHIN, "a worker is ready"
        )
        assert part.is_alive, part.said
        return part

    async def api(self, release: Release) -> Api:
        """An api that is ready."""
        port = str(free_port())
        names = {**self.environment, "VEDETTE_PORT": port}
        part = release.start("api", names, self.data / "logs" / f"api-{len(self.parts)}.log")
        self.parts.append(part)
        key = json.loads((self.data / "first-account.json").read_bytes())["api_key"]
        api = Api(f"http://127.0.0.1:{port}", key, load(names), part)
        await eventually(api.answers, WITHIN, "an api answers")
        return api

    async def connection(self) -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(self.names["DATABASE_URL"], autocommit=True)


@dataclass
class Api:
    """An api, as a load needs it."""

    url: str
    key: str
    settings: Settings
    part: Part

    async def answers(self) -> bool:
        """Return whether it says that the database and the schema are good."""
        assert self.part.is_alive, self.part.said
        async with httpx.AsyncClient(trust_env=False) as client:
            try:
                checks = (await client.get(f"{self.url}/readyz")).json()["checks"]
            except httpx.TransportError:
                return False
        return checks["database"] == checks["schema"] == checks["temporal"] == "ok"

    async def load(self, receiver: Receiver) -> Senders:
        """Send it every kind of run from now on."""
        senders = Senders(cast(Stack, self), receiver)
        await senders.open()
        return senders


@pytest.fixture
async def installation(scratch: Path) -> AsyncGenerator[Installation]:
    """An installation of the former release, without its processes."""
    if not has_history():
        assert not os.environ.get("CI"), f"the repository lacks {base_commit()}: clone it with its history"
        pytest.skip(f"the repository lacks {base_commit()}")
    data = scratch / "releases"
    (data / "logs").mkdir(parents=True)
    data.chmod(0o711)
    postgres = Postgres(data, data / "logs" / "postgres.log", Report())
    temporal = Temporal(data, data / "logs" / "temporal.log", Report())
    former = await asyncio.to_thread(former_release, scratch / "former")
    await asyncio.gather(postgres.start(), temporal.start())
    names = {
        "DATABASE_URL": postgres.url,
        "TEMPORAL_ADDRESS": temporal.address,
        "VEDETTE_ALLOW_PRIVATE_NETWORKS": "127.0.0.1/32",
        "VEDETTE_LIMIT_INGEST": "off",
    }
    found = Installation(names, data, former, this_release(), [])
    try:
        await asyncio.to_thread(former.run, "migrate", "--first-account", environment=found.environment)
        yield found
    finally:
        for part in found.parts:
            part.kill()
        await temporal.stop()
        await postgres.stop()


async def ended(part: Part) -> None:
    """Ask a process to end, and see that it does so in order."""
    part.end()
    await eventually(lambda: not part.is_alive, WITHIN, "a process ends")
    assert part.process.returncode == 0, part.said


async def carried_by(connection: psycopg.AsyncConnection[Any], build: str) -> int:
    """Return how many runs the shifts of a build have."""
    cursor = await connection.execute(
        "select count(*) from run_work w join shifts s on s.id = w.carrier where s.build = %s", (build,)
    )
    row = await cursor.fetchone()
    assert row is not None
    return row[0]


async def more(senders: Senders, runs: int) -> None:
    """Wait until so many more runs were acknowledged."""
    target = len(senders.acknowledged) + runs
    await eventually(lambda: len(senders.acknowledged) >= target, WITHIN, "runs are accepted")


@pytest.mark.long
async def test_two_releases_work_side_by_side_through_an_upgrade_and_a_way_back(
    installation: Installation,
) -> None:
    """With runs in every state: at work, in a delay, before an approval, with children, and new ones."""

    async def releases(*arguments: str) -> Any:
        command = ["releases", *arguments, "--json"]
        printed = await asyncio.to_thread(
            installation.newer.run, *command, environment=installation.environment
        )
        return {one["name"]: one for one in json.loads(printed)["builds"]}

    async with receiving() as receiver, await installation.connection() as connection:

        async def has_nothing(build: str) -> bool:
            return not await carried_by(connection, build)

        old_api, old_worker = (
            await installation.api(installation.former),
            await installation.worker(installation.former),
        )
        first = await old_api.load(receiver)
        await more(first, 50)
        # The upgrade: first the schema, then processes of both releases.
        await asyncio.to_thread(installation.newer.run, "migrate", environment=installation.environment)
        cursor = await connection.execute("select version_num from schema_revision")
        assert await cursor.fetchone() == (head(),)
        new_api, new_worker = (
            await installation.api(installation.newer),
            await installation.worker(installation.newer),
        )
        second = await new_api.load(receiver)
        await asyncio.gather(more(first, 50), more(second, 50))
        assert await old_api.answers() and old_worker.is_alive
        # The former release is drained: whatever is left and whatever comes is for the new one.
        await releases("drain", UNNAMED)
        await eventually(lambda: has_nothing(UNNAMED), WITHIN, "the former release has no runs")
        await asyncio.gather(more(first, 50), more(second, 50))
        assert await has_nothing(UNNAMED)
        await first.stop()
        await asyncio.gather(ended(old_worker), ended(old_api.part))
        await more(second, 50)
        # The way back: the schema stays, and runs that the new release has begun go on.
        await releases("admit", UNNAMED)
        old_api, old_worker = (
            await installation.api(installation.former),
            await installation.worker(installation.former),
        )
        third = await old_api.load(receiver)
        [build] = [name for name in await releases("list") if name != UNNAMED]
        await releases("drain", build)
        await eventually(lambda: has_nothing(build), WITHIN, "the new release has no runs")
        await second.stop()
        await asyncio.gather(ended(new_worker), ended(new_api.part))
        await more(third, 50)
        await third.stop()
        third.acknowledged |= first.acknowledged | second.acknowledged
        outcome = await settle(cast(Stack, old_api), third, receiver, WITHIN)
        assert (outcome.lost, outcome.stuck, outcome.doubled) == (0, 0, 0), outcome
        assert set(outcome.ended) == {"completed"}, outcome
        await asyncio.gather(ended(old_worker), ended(old_api.part))
    errors = [
        line for part in installation.parts for line in part.said.splitlines() if '"error"' in line[:200]
    ]
    assert not [line for line in errors if '"level": "error"' in line or '"level":"error"' in line]
