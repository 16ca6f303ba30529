"""A worker process that is killed the moment a function has done its work.

    python -m tests.automations.dying_worker models.run_work:claim

It is not when the function gives something false, as a claim does that has found nothing.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sys
from typing import Any

import settings
import worker


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


die_after(sys.argv[1])
asyncio.run(worker.run(settings.load()))
