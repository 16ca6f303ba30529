"""A worker process whose SDK never ends its polls, as Temporal's does now and then."""

from __future__ import annotations

import asyncio

import temporalio.bridge.worker

import cli
import worker


def main() -> None:
    """Be `vedette worker`, with a second of patience."""

    async def never(_worker: temporalio.bridge.worker.Worker) -> None:
        await asyncio.Event().wait()

    temporalio.bridge.worker.Worker.finalize_shutdown = never
    worker._STOP_SECONDS = 1.0
    cli.main()
