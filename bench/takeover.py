"""The time until all is done after a worker is killed under load.

    python -m bench.takeover [--seconds 4] [--rounds 3]

Clients post W1; after some seconds the worker is killed (SIGKILL), and another started at once, as the
supervisor does. Every run that was accepted must end.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from bench import load
from bench.ingest_neighbours import workflow
from bench.machine import machine
from bench.run_neighbours import unfinished
from bench.shapes import SHAPES
from bench.stack import Stack, unlimited

_CLIENTS = 32
_DONE_SECONDS = 120


async def measure(stack: Stack, seconds: float, rounds: int) -> None:
    """Print a line for each killed worker."""
    shape = SHAPES["w1"]
    definition = shape.definition("takeover", stack.echo)
    path = await workflow(stack, 0, definition)
    print("\naccepted   left at the kill   all done after the kill")
    for _ in range(rounds):
        await stack.change_worker({})
        requests = (load.request_bytes("POST", path, {}, body) for body in shape.bodies())
        sending = asyncio.create_task(
            load.run(load.Address(stack.port), requests, clients=_CLIENTS, seconds=seconds)
        )
        await asyncio.sleep(seconds / 2)
        killed = time.monotonic()
        await stack.kill_worker()
        left = await unfinished(stack)
        await stack.change_worker({})
        accepted = await sending
        assert set(accepted.statuses) == {202}, accepted.statuses
        while await unfinished(stack):
            assert time.monotonic() < killed + _DONE_SECONDS, "runs do not end"
            await asyncio.sleep(0.1)
        took = time.monotonic() - killed
        print(f"{len(accepted.latencies):8}   {left:16}   {took:21.1f} s", flush=True)


def main(arguments: argparse.Namespace) -> None:
    """Start a stack, measure, print."""
    print(machine(), flush=True)
    with unlimited() as (runners, stack):
        runners.plain.run(measure(stack, arguments.seconds, arguments.rounds))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    main(parser.parse_args())
