"""Polling: the SDK's workers ask Temporal for tasks, while the build of this worker is admitted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

import logs
from execution.admission import Admission

_log = logs.get(__name__)


class Polling:
    """The workers of the SDK, which ask Temporal for tasks while this build is admitted."""

    def __init__(
        self, make: Callable[[], Iterator[AbstractAsyncContextManager[Any]]], admission: Admission
    ) -> None:
        self._make = make
        self._admission = admission
        self._begun = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self, on_end: Callable[[], object]) -> None:
        """Begin to poll, as soon as Temporal is reached; `on_end` is called if that fails later."""
        self._task = asyncio.create_task(self._poll(), name="polling")
        self._task.add_done_callback(lambda _: (self._begun.set(), on_end()))
        await self._begun.wait()

    async def stop(self, seconds: float) -> None:
        """Stop polling; tasks under way have the grace period.

        Args:
            seconds: the longest wait, longer than that period. The SDK's worker may never end, for example
                while a poll hangs; what it does not finish, other workers repeat from the record.

        Raises:
            Exception: polling had failed.
        """
        if self._task is None:
            return
        self._task.cancel()
        ended, _ = await asyncio.wait({self._task}, timeout=seconds)
        if not ended:
            _log.warning("polling_not_ended", seconds=seconds)
        elif not self._task.cancelled():
            await self._task

    async def _poll(self) -> None:
        while True:
            if not self._admission.is_admitted:
                self._begun.set()
            await self._admission.wait_until(True)
            async with AsyncExitStack() as polling:
                for worker in self._make():
                    await polling.enter_async_context(worker)
                self._begun.set()
                await self._admission.wait_until(False)
