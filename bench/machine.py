"""The machine that a figure was taken on."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator


def machine() -> str:
    """Return one line on the machine of a figure, and its load before."""
    model = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if "model name" in line), "?"
    )
    load = f"load {os.getloadavg()[0]:.1f}"
    return f"{os.cpu_count()} cores, {model}, Python {platform.python_version()}, {load}"


def _lines(path: str) -> Iterator[str]:
    with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
        yield from file
