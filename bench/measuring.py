"""Drives workflows of a stack from outside and reads from its database what became of the runs."""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString, Self
from urllib.parse import urlsplit
from uuid import UUID

import httpx
import psycopg
from temporalio.client import Client, WorkflowExecutionStatus

from bench import load
from bench.shapes import Shape
from bench.stack import Stack

_DRAIN_SECONDS = 300
_LOOK_SECONDS = 0.02
_WARM_UP_SECONDS = 0.7
_BATCHES_LOOKED_AT = 40
PARTS = ("api", "worker", "temporal", "postgres", "load")


@dataclass(frozen=True)
class Figures:
    """What a measurement found; times in milliseconds.

    Attributes:
        rate: completed runs per second, from the first request to the last run's end.
        run_ms: p50 and p99 from accepting to completing a run.
        answer_ms: p50 and p99 of the answers to the clients.
        rows: runs per batch, mean and most.
        events: history events per run.
        cpu: CPU seconds per 1,000 runs, by part.
    """

    rate: float
    run_ms: tuple[float, float]
    answer_ms: tuple[float, float]
    rows: tuple[float, int]
    events: float
    cpu: dict[str, float]

    def __str__(self) -> str:
        (run50, run99), (answer50, answer99), (mean, most) = self.run_ms, self.answer_ms, self.rows
        return (
            f"{self.rate:7.0f} {run50:8.1f} {run99:8.1f} {answer50:8.1f} {answer99:8.1f} {mean:6.1f} {most:4}"
            f" {self.events:7.2f} " + "".join(f"{self.cpu[part]:9.2f}" for part in PARTS)
        )


HEADS = (
    "   runs  accepted→completed    answered, ms  rows a batch  events   CPU seconds for 1,000 runs\n",
    "   each s      p50      p99      p50      p99   mean most   a run " + "".join(f"{p:>9}" for p in PARTS),
)


class Bench:
    """Connections to a stack, and the workflows created there."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._workflows: dict[str, tuple[UUID, str]] = {}

    async def open(self) -> Self:
        """Connect, in the running loop."""
        settings = self._stack.settings
        assert settings.database_url is not None and settings.temporal_address is not None
        self._database = await psycopg.AsyncConnection[tuple[Any, ...]].connect(
            settings.database_url.get_secret_value(), autocommit=True
        )
        self._temporal = await Client.connect(settings.temporal_address)
        return self

    async def close(self) -> None:
        """Close the connections."""
        await self._database.close()

    async def create(self, name: str, shape: Shape) -> UUID:
        """Create a workflow, and see that runs give what they should. Returns the batch of the last one."""
        headers = {"Authorization": f"Bearer {self._stack.key}"}
        async with httpx.AsyncClient(base_url=self._stack.url, trust_env=False, timeout=60) as client:
            definition = shape.definition(name, self._stack.echo)
            answer = await client.post("/api/workflows", json=definition, headers=headers)
            assert answer.status_code == 201, answer.text
            created: dict[str, str] = answer.json()
            path: str = urlsplit(created["webhook_url"]).path
            run: dict[str, Any] = {}
            for number in (0, 1):
                run = (await client.post(f"{path}?wait=30", json=shape.event(number))).json()
                assert run.get("output") == shape.output(number), {
                    "run": run.get("output"),
                    "of": run.get("error"),
                }
        self._workflows[name] = UUID(created["id"]), path
        return (await self._row("select batch_id from runs where id = %s", (run["run_id"],)))[0]

    async def measure(
        self, name: str, shape: Shape, clients: int, seconds: float, *, waiting: bool, most_unfinished: int
    ) -> Figures:
        """Send events for so many seconds, until all runs have ended.

        Args:
            name: of a workflow that has been created.
            shape: of that workflow.
            clients: connections, each with one request in flight.
            seconds: after which no event is sent any more.
            waiting: whether each request waits for its run, or is answered when the run is accepted.
            most_unfinished: how many runs may be unfinished before clients pause.
        """
        automation_id, path = self._workflows[name]
        bodies, path = shape.bodies(), f"{path}?wait=30" if waiting else path
        requests = (load.request_bytes("POST", path, {}, body) for body in bodies)
        await self._send(requests, clients, min(seconds, _WARM_UP_SECONDS), 2 * clients)
        [since] = await self._row("select clock_timestamp()")
        used, start = self._stack.cpu_seconds(), time.perf_counter()
        result = await self._send(requests, clients, seconds, most_unfinished)
        took, count = time.perf_counter() - start, len(result.latencies)
        cpu = {part: (now - used[part]) / count * 1000 for part, now in self._stack.cpu_seconds().items()}
        assert set(result.statuses) == {200 if waiting else 202}, result.statuses
        run_ms = await self._run_ms(automation_id, since, count)
        rows, events = await self._batches(automation_id, since)
        return Figures(
            count / took,
            run_ms,
            (result.percentile(0.5), result.percentile(0.99)),
            (statistics.mean(rows), max(rows)),
            events,
            cpu,
        )

    async def _send(self, requests: Any, clients: int, seconds: float, most_unfinished: int) -> load.Result:
        """Send, pausing while too many runs are unfinished; return when none is."""
        gate = asyncio.Event()
        gate.set()
        sending = asyncio.create_task(
            load.run("127.0.0.1", self._stack.port, requests, clients=clients, seconds=seconds, gate=gate)
        )
        deadline = time.perf_counter() + seconds + _DRAIN_SECONDS
        while (unfinished := await self._unfinished()) or not sending.done():
            assert time.perf_counter() < deadline, f"{unfinished} runs do not end"
            (gate.set if unfinished < most_unfinished else gate.clear)()
            await asyncio.sleep(_LOOK_SECONDS)
        return await sending

    async def _unfinished(self) -> int:
        [count] = await self._row("select count(*) from run_work")
        return count

    async def _run_ms(self, automation_id: UUID, since: datetime, count: int) -> tuple[float, float]:
        accepted, completed, (p50, p99) = await self._row(
            "select count(*), count(*) filter (where status = 'completed'),"
            " percentile_cont(array[0.5, 0.99]) within group"
            "  (order by extract(epoch from completed_at - queued_at) * 1000)"
            " from runs where automation_id = %s and queued_at >= %s",
            (automation_id, since),
        )
        assert accepted == completed == count, f"{count} sent, {accepted} accepted, {completed} completed"
        return p50, p99

    async def _batches(self, automation_id: UUID, since: datetime) -> tuple[list[int], float]:
        """The rows of each batch, and the history events of some batches for each of their rows."""
        cursor = await self._database.execute(
            "select batch_id, count(*) from runs where automation_id = %s and queued_at >= %s"
            " group by batch_id order by batch_id",
            (automation_id, since),
        )
        rows: dict[UUID, int] = dict(await cursor.fetchall())
        some = list(rows)[:: max(1, len(rows) // _BATCHES_LOOKED_AT)]
        events = sum([await self._events(batch_id) for batch_id in some])
        return list(rows.values()), events / sum(rows[batch_id] for batch_id in some)

    async def _events(self, batch_id: UUID) -> int:
        """How long the history of a batch has become."""
        handle = self._temporal.get_workflow_handle(f"automation/{batch_id}")
        while (description := await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
            await asyncio.sleep(_LOOK_SECONDS)
        return description.history_length

    async def _row(self, query: LiteralString, values: tuple[Any, ...] = ()) -> tuple[Any, ...]:
        cursor = await self._database.execute(query, values)
        row = await cursor.fetchone()
        assert row is not None
        return row
