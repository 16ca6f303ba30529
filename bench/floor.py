"""The base cost of this machine and Temporal: the least that any run can take here.

    python -m bench.floor [--seconds 6]

A workflow with one activity that does nothing, one at a time: the same embedded server, the same worker
options as `vedette`, but no sandbox, no database, no API, no call. Compare `w1` with one client.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import psutil
from temporalio import activity, workflow
from temporalio.worker import PollerBehaviorSimpleMaximum, UnsandboxedWorkflowRunner, Worker

from bench.machine import machine
from embedded.report import Report
from embedded.temporal import Temporal
from sealing import Keyring, root_keys
from settings import load
from temporal.client import connect


@activity.defn
async def nothing() -> None:
    """Do nothing."""


@workflow.defn
class Bare:
    """One activity."""

    @workflow.run
    async def run(self) -> None:
        """Run the activity."""
        await workflow.execute_activity(nothing, start_to_close_timeout=timedelta(seconds=10))


async def measure(server: Temporal, data: Path, seconds: float) -> None:
    """Run one after the other, and print how long each took."""
    settings = load({"VEDETTE_DATA": str(data), "TEMPORAL_ADDRESS": server.address})
    client = await connect(settings, Keyring(root_keys(settings, sealed_data_exists=False)))
    worker = Worker(
        client,
        task_queue="bare",
        workflows=[Bare],
        activities=[nothing],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_concurrent_workflow_tasks=12,
        workflow_task_poller_behavior=PollerBehaviorSimpleMaximum(2),
    )
    process = psutil.Process(server.child.pid)
    async with worker:
        took: list[float] = []
        started, used = time.perf_counter(), (_cpu(process), time.process_time())
        while time.perf_counter() - started < seconds:
            begun = time.perf_counter()
            handle = await client.start_workflow(
                Bare.run, id=str(uuid4()), task_queue="bare", request_eager_start=True
            )
            await handle.result()
            took.append((time.perf_counter() - begun) * 1000)
        cpu = _cpu(process) - used[0], time.process_time() - used[1]
    took.sort()
    print(
        f"one workflow with one activity: p50 {statistics.median(took):.1f} ms,"
        f" p99 {took[int(len(took) * 0.99)]:.1f} ms;"
        f" CPU ms each: server {cpu[0] / len(took) * 1000:.1f}, worker {cpu[1] / len(took) * 1000:.1f}"
    )


def _cpu(process: psutil.Process) -> float:
    used = process.cpu_times()
    return used.user + used.system


async def main(seconds: float) -> None:
    """Start a server, measure, stop it."""
    with tempfile.TemporaryDirectory(prefix="vedette-bench-") as name:
        data = Path(name)
        data.chmod(0o711)
        os.makedirs(data / "logs")
        server = Temporal(data, data / "logs" / "temporal.log", Report())
        await server.start()
        try:
            await measure(server, data, seconds)
        finally:
            await server.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=6)
    print(machine())
    asyncio.run(main(parser.parse_args().seconds))
