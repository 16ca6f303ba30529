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

from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import PollerBehaviorAutoscaling, UnsandboxedWorkflowRunner

import cli
import dispatcher
import worker
from database import Database
from models import batches
from workflows import policies
from workflows.automations import AutomationBatch
from workflows.calls import Call
from workflows.messages import LOOKUP_MANY, StepResults


class NeverEager(dispatcher.Dispatcher):
    """Leaves it to the server to hand out the first task of a batch."""

    def __init__(self, database: Database, client: Client, worker_id: UUID, *, eager: bool = True) -> None:
        super().__init__(database, client, worker_id, eager=False)


CONSTANTS: dict[str, tuple[ModuleType, str]] = {
    "rows": (batches, "MAX_ROWS"),
    "starts": (dispatcher, "_STARTS_IN_FLIGHT"),
    "pollers": (worker, "_WORKFLOW_POLLERS"),
}
_call_by_the_server = AutomationBatch._call  # pyright: ignore[reportPrivateUsage]


async def _call_here(self: AutomationBatch, call: Call) -> None:
    """Do lookups as local activities: in the process that has the workflow, without the server's part."""
    if call.activity != LOOKUP_MANY:
        await _call_by_the_server(self, call)
        return
    results: StepResults = await workflow.execute_local_activity(
        call.activity,
        call.calls,
        result_type=StepResults,
        start_to_close_timeout=policies.start_to_close(call.calls),
        retry_policy=policies.LOST_WORKER,
    )
    self._inbox.append(lambda: self._rows.take_results(call, results.results))  # pyright: ignore[reportPrivateUsage]


def _autoscaling(_maximum: int) -> PollerBehaviorAutoscaling:
    return PollerBehaviorAutoscaling()


SWITCHES: dict[str, tuple[ModuleType | type, str, Any]] = {
    "sandbox": (worker, "workflow_runner", UnsandboxedWorkflowRunner),
    "eager": (worker, "Dispatcher", NeverEager),
    "fixed pollers": (worker, "PollerBehaviorSimpleMaximum", _autoscaling),
    "server's activities": (AutomationBatch, "_call", _call_here),
}
"""What takes the place of a name where the switch is off."""


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
            owner, constant, replacement = SWITCHES[name]
            getattr(owner, constant)
            setattr(owner, constant, replacement)


if __name__ == "__main__":
    change(json.loads(os.environ.get("BENCH_WORKER", "{}")))
    sys.argv = ["vedette", "worker"]
    cli.main()
