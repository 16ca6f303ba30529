"""What a process that serves sees to: its garbage collector, the folders that it was given open, its end."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any, NoReturn

HELD_FOLDERS = "HELD_FOLDERS"
"""The environment name of the descriptors by which a process reaches its code and data: `9,10`."""

DOWNLOADS = "HELD_DOWNLOADS"
"""The environment name of the folder of downloads, for a process that may not reach it by its path."""

# Young objects between two collections. With Python's 700, collecting took a sixth of the worker's CPU under
# load: nearly all that it looked at was modules, schemas and caches, which stay. With 20,000 it took a
# twelfth, for the runs under way, which end by themselves.
_YOUNG_OBJECTS = 100_000


def collect_rarely() -> None:
    """Collect garbage less often. Call it before the imports, which make little of it."""
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)


def spare_what_stays() -> None:
    """Exempt all that exists now from collection, and collect less often. Call it when the start is over."""
    gc.collect()
    gc.freeze()
    collect_rarely()


def reach_of_children() -> dict[str, Any]:
    """The arguments of `subprocess` with which a child reaches what this process reaches by descriptors."""
    held = os.environ.get(HELD_FOLDERS)
    return {"pass_fds": [int(number) for number in held.split(",")]} if held else {}


def python_like_this() -> dict[str, Any]:
    """The same for a child that is a Python, which this process may not reach by the path of its own."""
    reach = reach_of_children()
    return {**reach, "executable": "/proc/self/exe"} if reach else {}


def leave(code: int) -> NoReturn:
    """End this process with the exit code, without taking down the interpreter where Temporal's SDK is."""
    sys.stdout.flush()
    sys.stderr.flush()
    if "temporalio" in sys.modules:
        # Its threads may still be at work, and abort the process when the interpreter is gone under them.
        os._exit(code)
    sys.exit(code)
