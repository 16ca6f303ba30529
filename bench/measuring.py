"""The measurement of workflows: it drives a stack from outside, and reads the results from its database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import cycle, islice
from typing import Any, LiteralString, NamedTuple, Self
from urllib.parse import urlsplit
from uuid import UUID

import httpx
import psycopg
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from bench import load, stored_runs
from bench.accounts import sign_in
from bench.shapes import Shape
from bench.stack import Stack
from temporal.starts import run_workflow_id

_DRAIN_SECONDS = 300
_LOOK_SECONDS = 0.02
_WARM_UP_SECONDS, _LONGEST_WARM_UP_SECONDS = 0.7, 120
_WARM_UP_CLIENTS, _WARM_UP_RUNS = 8, 256
_SAVES_AT_ONCE = 2
_RUNS_LOOKED_AT = 40
_CLOCK_AND_WAL = "select clock_timestamp(), pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float"
PARTS = ("api", "worker", "temporal", "postgres", "load")


@dataclass(frozen=True)
class Figures:
    """The result of a measurement; times in milliseconds.

    Attributes:
        rate: completed runs per second, from the first request to the last run's end.
        run_ms: p50, p95 and p99 from accepting to completing a run.
        answer_ms: p50 and p99 of the answers to the clients.
        own: the share of runs with workflows of their own.
        activities: the share of steps performed in activities of these.
        events: history events per run.
        cpu: CPU seconds per 1,000 runs, by part.
        wal: bytes of write-ahead log per run, those of other work meanwhile included.
        history: bytes of Temporal history per run.
    """

    rate: float
    run_ms: tuple[float, float, float]
    answer_ms: tuple[float, float]
    own: float
    activities: float
    events: float
    cpu: dict[str, float]
    wal: float
    history: float

    def __str__(self) -> str:
        (run50, run95, run99), (answer50, answer99) = self.run_ms, self.answer_ms
        return (
            f"{self.rate:7.0f} {run50:8.1f} {run95:8.1f} {run99:8.1f} {answer50:8.1f} {answer99:8.1f}"
            f" {self.own:7.0%} {self.activities:7.0%} {self.events:7.2f} "
            + "".join(f"{self.cpu[part]:9.2f}" for part in PARTS)
        )


HEADS = (
    "   runs      accepted→completed, ms     answered, ms    their own   events   CPU s for 1,000 runs\n",
    "   each s      p50      p95      p99      p50      p99    runs   steps   a run "
    + "".join(f"{p:>9}" for p in PARTS),
)


class Workflows(NamedTuple):
    """Workflows of one shape, whose events are posted to these paths in turn."""

    shape: Shape
    paths: list[str]

    def requests(self, *, waiting: bool) -> Iterator[bytes]:
        """Yield events in the sent form, for ever."""
        query = "?wait=30" if waiting else ""
        for path, body in zip(cycle(self.paths), self.shape.bodies(), strict=False):
            yield load.request_bytes("POST", path + query, {}, body)


class Load(NamedTuple):
    """The way in which events are sent.

    Attributes:
        clients: connections, each with one request in flight; none if events are offered.
        offered: events a second, sent at an even pace whether or not earlier ones are answered.
        waiting: whether each request waits for its run, or is answered when the run is accepted.
        most_unfinished: the most unfinished runs before clients pause.
    """

    clients: int
    offered: float
    waiting: bool
    most_unfinished: int


class Bench:
    """Connections to a stack, and the accounts that have workflows there."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._accounts = [{"Authorization": f"Bearer {stack.key}"}]

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

    async def create(
        self, shape: Shape, count: int = 1, accounts: int = 1, execution: str = "auto"
    ) -> Workflows:
        """Create workflows of several accounts, and check the outputs of their runs."""
        places = asyncio.Semaphore(_SAVES_AT_ONCE)
        stack = self._stack
        async with httpx.AsyncClient(
            base_url=stack.url, verify=stack.address.trust or True, trust_env=False, timeout=60
        ) as client:
            while len(self._accounts) < accounts:
                self._accounts.append(await sign_in(client, len(self._accounts)))

            async def create(number: int) -> str:
                definition = shape.definition(f"bench {number}", self._stack.echo)
                definition |= {"execution": execution}
                headers = self._accounts[number % accounts]
                async with places:
                    answer = await client.post("/api/workflows", json=definition, headers=headers)
                assert answer.status_code == 201, answer.text
                return urlsplit(str(answer.json()["webhook_url"])).path

            paths = await asyncio.gather(*map(create, range(count)))
            for number, path in enumerate((paths[0], paths[-1])):
                run: dict[str, Any] = (await client.post(f"{path}?wait=30", json=shape.event(number))).json()
                assert run.get("output") == shape.output(number), (run.get("output"), run.get("error"))
        return Workflows(shape, paths)

    async def until_apis_serve(self) -> None:
        """Wait until each API process of the stack has announced itself."""
        numbers = self._stack.api_pids
        query: LiteralString = "select count(*) from processes where name like 'api %%'"
        query += " and substring(name from '[0-9]+$')::int = any(%s)"
        deadline = time.perf_counter() + _DRAIN_SECONDS
        while (await self._row(query, (numbers,)))[0] < len(numbers):
            assert time.perf_counter() < deadline, "an API process does not start"
            await asyncio.sleep(_LOOK_SECONDS)

    async def run_each_once(self, workflows: Workflows) -> None:
        """Run each workflow once, or as many of them as two minutes allow."""
        requests = islice(workflows.requests(waiting=False), len(workflows.paths))
        given = Load(_WARM_UP_CLIENTS, 0, waiting=False, most_unfinished=_WARM_UP_RUNS)
        await self._send(requests, given, _LONGEST_WARM_UP_SECONDS)

    async def store_runs(self, count: int) -> int:
        """Store finished runs until there are this many; return how many there are."""
        return await stored_runs.fill(self._database, count)

    async def measure(
        self, workflows: Workflows, given: Load, seconds: float, *, cold: bool = False
    ) -> Figures:
        """Send events for this many seconds, until all runs have ended.

        Args:
            workflows: from `create`.
            given: the load.
            seconds: after which no event is sent any more.
            cold: send nothing before, so that the worker may run each workflow for the first time.
        """
        requests = workflows.requests(waiting=given.waiting)
        if not cold:
            clients = given.clients or _WARM_UP_CLIENTS
            warming = Load(clients, 0, given.waiting, 2 * clients)
            await self._send(requests, warming, min(seconds, _WARM_UP_SECONDS))
        since, wal = await self._row(_CLOCK_AND_WAL)
        used, start = self._stack.cpu_seconds(), time.perf_counter()
        result = await self._send(requests, given, seconds)
        took, count = time.perf_counter() - start, len(result.latencies)
        wal = ((await self._row(_CLOCK_AND_WAL))[1] - wal) / count
        cpu = {part: (now - used[part]) / count * 1000 for part, now in self._stack.cpu_seconds().items()}
        assert set(result.statuses) == {200 if given.waiting else 202}, result.statuses
        run_ms = await self._run_ms(since, count)
        own, events, history = await self._histories(since)
        [activities] = await self._row(
            "select coalesce(avg((performed_by = 'activity')::int), 0)::float from run_steps"
            " where started_at >= %s and status <> 'skipped'",
            (since,),
        )
        answer_ms = (result.percentile(0.5), result.percentile(0.99))
        return Figures(count / took, run_ms, answer_ms, own, activities, events, cpu, wal, history)

    async def _send(self, requests: Iterator[bytes], given: Load, seconds: float) -> load.Result:
        """Send events, pausing while too many runs are unfinished; return when all have ended."""
        stack, deadline = self._stack, time.perf_counter() + seconds + _DRAIN_SECONDS
        if given.offered:
            result = await load.offer(stack.address, requests, rate=given.offered, seconds=seconds)
        else:
            gate = asyncio.Event()
            gate.set()
            sending = asyncio.create_task(
                load.run(stack.address, requests, clients=given.clients, seconds=seconds, gate=gate)
            )
            while not sending.done():
                unfinished = await self._unfinished(deadline)
                (gate.set if unfinished < given.most_unfinished else gate.clear)()
                await asyncio.sleep(_LOOK_SECONDS)
            result = await sending
        while await self._unfinished(deadline):
            await asyncio.sleep(_LOOK_SECONDS)
        return result

    async def _unfinished(self, deadline: float) -> int:
        [count] = await self._row("select count(*) from run_work")
        assert time.perf_counter() < deadline, f"{count} runs do not end"
        return count

    async def _run_ms(self, since: datetime, count: int) -> tuple[float, float, float]:
        accepted, completed, (p50, p95, p99) = await self._row(
            "select count(*), count(*) filter (where status = 'completed'),"
            " percentile_cont(array[0.5, 0.95, 0.99]) within group"
            "  (order by extract(epoch from completed_at - queued_at) * 1000)"
            " from runs where queued_at >= %s",
            (since,),
        )
        assert accepted == completed == count, f"{count} sent, {accepted} accepted, {completed} completed"
        return p50, p95, p99

    async def _histories(self, since: datetime) -> tuple[float, float, float]:
        """Return the share of runs with workflows of their own, and their events and bytes per run."""
        cursor = await self._database.execute(
            "select id from runs where queued_at >= %s order by id", (since,)
        )
        run_ids = [row[0] for row in await cursor.fetchall()]
        some = run_ids[:: max(1, len(run_ids) // _RUNS_LOOKED_AT)]
        found = [await self._history(run_id) for run_id in some]
        own = sum(events > 0 for events, _ in found)
        totals = (own, sum(events for events, _ in found), sum(size for _, size in found))
        return tuple(total / len(some) for total in totals)

    async def _history(self, run_id: UUID) -> tuple[int, int]:
        """Return the events and the bytes of a run's workflow history; none for a run without one."""
        handle = self._temporal.get_workflow_handle(run_workflow_id(run_id))
        try:
            while (description := await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
                await asyncio.sleep(_LOOK_SECONDS)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return 0, 0
        return (
            description.history_length,
            description.raw_description.workflow_execution_info.history_size_bytes,
        )

    async def _row(self, query: LiteralString, values: tuple[Any, ...] = ()) -> tuple[Any, ...]:
        cursor = await self._database.execute(query, values)
        row = await cursor.fetchone()
        assert row is not None
        return row
