"""A worker process whose periods are short, and which is killed the moment a function has done its work.

Its arguments name such functions: `models.runs.run_work:claim`. It is not killed when the function gives
something false, as a claim does that has found nothing.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sys
from typing import Any

import process
import settings
import worker
from tests.automations import periods


def die_after(name: str) -> None:
    module_name, _, function_name = name.partition(":")
    module = importlib.import_module(module_name)
    function = getattr(module, function_name)

    async def do_and_die(*arguments: Any, **options: Any) -> Any:
        done = await function(*arguments, **options)
        if done or done is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    setattr(module, function_name, do_and_die)


def main() -> None:
    """Be the worker."""
    periods.shorten()
    for name in sys.argv[1:]:
        die_after(name)
    asyncio.run(worker.run(settings.load()))
    process.leave(0)
