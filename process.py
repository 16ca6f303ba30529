"""The process of a service: its garbage collector, the folders that it got open, its exit."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

HELD_FOLDERS = "HELD_FOLDERS"
"""The environment name of the descriptors by which a process reaches its code and data: `9,10`."""

DOWNLOADS = "HELD_DOWNLOADS"
"""The environment name of the folder of downloads, for a process that may not reach it by its path."""

# Young objects between two collections. With Python's 700, collecting took a sixth of the worker's CPU under
# load: nearly all visited objects were modules, schemas and caches, which stay. With 20,000 it took a
# twelfth, for the runs under way, which end by themselves.
_YOUNG_OBJECTS = 100_000


def collect_rarely() -> None:
    """Collect garbage less often. Call it before the imports, which make little garbage."""
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)


def freeze_gc() -> None:
    """Exempt all existing objects from collection, and collect less often.

    Call it at the end of the start.
    """
    gc.collect()
    gc.freeze()
    collect_rarely()


def reach_of_children() -> dict[str, Any]:
    """Return the arguments of `subprocess` by which a child inherits the held descriptors of this process."""
    held = os.environ.get(HELD_FOLDERS)
    return {"pass_fds": [int(number) for number in held.split(",")]} if held else {}


def python_like_this() -> dict[str, Any]:
    """Return the same for a Python child, if this process may not reach Python by its own path."""
    reach = reach_of_children()
    return {**reach, "executable": "/proc/self/exe"} if reach else {}


def leave(code: int) -> NoReturn:
    """End this process with the exit code; do not shut the interpreter down under Temporal's SDK."""
    sys.stdout.flush()
    sys.stderr.flush()
    if "temporalio" in sys.modules:
        # The SDK's threads may still run, and would abort the process when the interpreter is gone.
        os._exit(code)
    sys.exit(code)


def leave_after(seconds: float, warn: Callable[..., object]) -> None:
    """End this process after this time, even if its stop still waits, for example for a server that hangs.

    Args:
        seconds: from now on.
        warn: logs that it was given up. All that must last is in the database.
    """

    def leave_now() -> None:
        warn("stop_given_up", seconds=seconds)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    timer = threading.Timer(seconds, leave_now)
    timer.daemon = True
    timer.start()
