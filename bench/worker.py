"""`vedette worker` with constants of the engine changed, to see what each is worth.

`BENCH_WORKER` holds the changes as JSON, by the names of `CONSTANTS` and `SWITCHES`:

    BENCH_WORKER='{"rows": 1, "sandbox": false}' python -m bench.worker
"""

from __future__ import annotations

import json
import os
import sys
from types import ModuleType
from typing import Any
from uuid import UUID

from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner

import cli
import dispatcher
import worker
from database import Database
from models import batches


class NeverEager(dispatcher.Dispatcher):
    """Leaves it to the server to hand out the first task of a batch."""

    def __init__(self, database: Database, client: Client, worker_id: UUID, *, eager: bool = True) -> None:
        super().__init__(database, client, worker_id, eager=False)


CONSTANTS: dict[str, tuple[ModuleType, str]] = {
    "rows": (batches, "MAX_ROWS"),
    "starts": (dispatcher, "_STARTS_IN_FLIGHT"),
    "pollers": (worker, "_WORKFLOW_POLLERS"),
}
SWITCHES: dict[str, tuple[str, Any]] = {
    "sandbox": ("workflow_runner", UnsandboxedWorkflowRunner),
    "eager": ("Dispatcher", NeverEager),
}
"""What takes the place of a name in `worker` where the switch is off."""


def change(changes: dict[str, int | bool]) -> None:
    """Change the constants in this process.

    Raises:
        KeyError: there is no such change.
        AttributeError: the constant has another name by now.
    """
    for name, value in changes.items():
        if name in CONSTANTS:
            module, constant = CONSTANTS[name]
            getattr(module, constant)
            setattr(module, constant, value)
        elif not value:
            constant, replacement = SWITCHES[name]
            getattr(worker, constant)
            setattr(worker, constant, replacement)


if __name__ == "__main__":
    change(json.loads(os.environ.get("BENCH_WORKER", "{}")))
    sys.argv = ["vedette", "worker"]
    cli.main()
