"""`vedette worker` with changed constants of the engine, to measure the worth of each.

`BENCH_WORKER` holds the changes as JSON, by the names of `CONSTANTS` and `SWITCHES`:

    BENCH_WORKER='{"rows": 1, "sandbox": false}' python -m bench.worker
"""

from __future__ import annotations

import json
import os
import sys
from types import ModuleType
from typing import Any

from temporalio.worker import PollerBehaviorAutoscaling, UnsandboxedWorkflowRunner

import cli
import worker
from models.runs import claim_requests

CONSTANTS: dict[str, tuple[ModuleType, str]] = {
    "rows": (claim_requests, "MAX_ROWS"),
    "pollers": (worker, "_WORKFLOW_POLLERS"),
}


def _autoscaling(_maximum: int) -> PollerBehaviorAutoscaling:
    return PollerBehaviorAutoscaling()


SWITCHES: dict[str, tuple[ModuleType, str, Any]] = {
    "sandbox": (worker, "workflow_runner", UnsandboxedWorkflowRunner),
    "fixed pollers": (worker, "PollerBehaviorSimpleMaximum", _autoscaling),
}
"""The replacement of a name whose switch is off."""


def change(changes: dict[str, int | bool]) -> None:
    """Change the constants in this process.

    Raises:
        KeyError: there is no such change.
        AttributeError: the constant was renamed.
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
