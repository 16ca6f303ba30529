"""The periods after which what is silent counts as lost, all shorter by one factor, so that tests wait less.

They stay in the same proportion to each other: a beat is as far from the end of its lease as ever.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

FACTOR = 3
_PERIODS = {
    "execution.shift": ["BEGIN_SECONDS"],
    "execution.executor": ["BEAT_SECONDS"],
    "execution.heartbeat": ["_SECONDS"],
    "models.runs.shifts": ["SILENT_SECONDS"],
    "models.work_queue": ["_START_SECONDS", "_UNSEEN_SECONDS"],
    "temporal.starts": ["_TASK_TIMEOUT"],
    "worker": ["_HEARTBEATS_HELD_BACK"],
    "workflows.policies": ["HEARTBEAT"],
}


def shorten(assign: Callable[[Any, str, Any], None] = setattr) -> None:
    """Make all of them shorter, in this process."""
    for module_name, names in _PERIODS.items():
        module = importlib.import_module(module_name)
        for name in names:
            assign(module, name, getattr(module, name) / FACTOR)
