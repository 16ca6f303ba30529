"""Polling: the SDK's workers ask Temporal for tasks, while the build of this worker is admitted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

from execution.admission import Admission


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

    async def stop(self) -> None:
        """Stop polling; tasks under way have the grace period.

        Raises:
            Exception: polling had failed.
        """
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
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
