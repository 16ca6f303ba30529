"""What processes of a pool are given to do. They import this module, so it imports little."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from services.process_pool import Ask


def process_id(ask: Ask) -> int:
    return os.getpid()


def doubled(ask: Ask, number: int) -> int:
    return 2 * ask(number)


def fail(ask: Ask) -> None:
    raise KeyError("a fault of the work")


def take_memory(ask: Ask) -> int:
    return len(bytes(2 * 1024**3))


def wait_for(ask: Ask, path: Path) -> str:
    path.with_suffix(".begun").touch()
    while not path.exists():
        time.sleep(0.01)
    return path.name


def environment_names(ask: Ask) -> list[str]:
    return list(os.environ)


def printed(ask: Ask) -> str:
    print("this is no result")
    return "result"


def doubled_alone(ask: Ask, number: int) -> int:
    return 2 * number


def imported(ask: Ask) -> set[str]:
    return set(sys.modules)
