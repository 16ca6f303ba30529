"""Replay: what it costs a worker to take up a batch that it does not have in memory.

    python -m bench.replay [--times 40]

CPU of the whole process, the SDK's threads included, for each replay of a history; with the sandbox, as
workers run, and without. A stack of its own records the history of a workflow of 100 steps; the other
histories are those that the tests replay.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, NamedTuple

from temporalio.client import Client, WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from bench.machine import machine
from bench.measuring import Bench
from bench.shapes import Shape, transform, webhook
from bench.stack import Runners, Stack, nothing, running
from sealing import Keyring, root_keys
from temporal.client import connect
from temporal.sandbox import workflow_runner
from workflows.automations import AutomationBatch

HISTORIES = Path(__file__).parents[1] / "tests" / "histories"
CALLS = 50
_WARM_UP = 5


def _long(url: str) -> list[dict[str, Any]]:
    """A hundred steps in a row: calls, and transforms of their answers."""
    steps: list[dict[str, Any]] = []
    for number in range(CALLS):
        steps.append(webhook(f"call{number}", url, {"number": number}))
        steps.append(transform(f"read{number}", {"ok": f"call{number}.body.ok", "number": str(number)}))
    return steps


LONG = Shape(_long, lambda number: {"id": number}, lambda _: {"ok": True, "number": CALLS - 1})


class Recorded(NamedTuple):
    """A history, and what reads its payloads."""

    name: str
    history: WorkflowHistory
    converter: DataConverter


def committed(name: str) -> Recorded:
    """A history of the tests; its payloads are in clear."""
    history = WorkflowHistory.from_json(f"automation/{name}", (HISTORIES / f"{name}.json").read_text())
    return Recorded(name, history, pydantic_data_converter)


async def recorded(stack: Stack) -> Recorded:
    """The history of a run of a hundred steps, made now; its payloads are sealed."""
    bench = await Bench(stack).open()
    try:
        batch_id = await bench.create("long", LONG)
    finally:
        await bench.close()
    settings = stack.settings
    keyring = Keyring(root_keys(settings, sealed_data_exists=True))
    client: Client = await connect(settings, keyring)
    handle = client.get_workflow_handle(f"automation/{batch_id}")
    await handle.result()
    return Recorded(f"{2 * CALLS} steps, sealed", await handle.fetch_history(), client.data_converter)


async def replay(one: Recorded, times: int, *, sandbox: bool) -> tuple[list[float], list[float]]:
    """CPU and wall milliseconds of each replay, none of which finds anything in memory.

    Raises:
        temporalio.workflow.NondeterminismError: the code decides otherwise than the history.
    """
    cpu: list[float] = []
    wall: list[float] = []

    async def histories() -> AsyncGenerator[WorkflowHistory]:
        for _ in range(_WARM_UP + times):
            busy, start = time.process_time(), time.perf_counter()
            yield one.history  # resumed when it has been replayed
            cpu.append((time.process_time() - busy) * 1000)
            wall.append((time.perf_counter() - start) * 1000)

    replayer = Replayer(
        workflows=[AutomationBatch],
        workflow_runner=workflow_runner() if sandbox else UnsandboxedWorkflowRunner(),
        data_converter=one.converter,
    )
    await replayer.replay_workflows(histories())
    return cpu[_WARM_UP:], wall[_WARM_UP:]


def main(times: int) -> None:
    """Record, replay, print."""
    print(machine(), flush=True)
    with Runners.made() as runners:
        with running(runners, nothing, VEDETTE_LIMIT_INGEST="off") as stack:
            runners.plain.run(stack.change_worker({}))
            long = runners.fast.run(recorded(stack))
        print(f"\nCPU ms for a replay, {times} times     events  sandbox    mean     p50     p90   wall p50")
        for one in (committed("linear"), committed("a-batch-of-64-that-parts"), long):
            for sandbox in (True, False):
                cpu, wall = runners.fast.run(replay(one, times, sandbox=sandbox))
                print(
                    f"{one.name:<36} {len(one.history.events):>6}  {'with' if sandbox else 'without':<7}"
                    f" {statistics.mean(cpu):7.1f} {statistics.median(cpu):7.1f}"
                    f" {statistics.quantiles(cpu, n=10)[-1]:7.1f} {statistics.median(wall):10.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=40)
    main(parser.parse_args().times)
