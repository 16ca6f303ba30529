"""The machine that a figure was taken on."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator


def machine() -> str:
    """One line on the machine that a figure was taken on."""
    model = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if "model name" in line), "?"
    )
    return f"{os.cpu_count()} cores, {model}, Python {platform.python_version()}"


def _lines(path: str) -> Iterator[str]:
    with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
        yield from file
