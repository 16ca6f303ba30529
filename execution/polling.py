"""Polling: the SDK's workers ask Temporal for tasks, while this worker is fit for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

import logs

_log = logs.get(__name__)
_LOOK_SECONDS = 0.5


class Polling:
    """The workers of the SDK, which ask Temporal for tasks while this worker is fit for them.

    A workflow stays with the worker that has it in memory. One that does not reach the database would keep
    it, though others could go on; so it gives its workflows up.
    """

    def __init__(
        self,
        make: Callable[[], Iterator[AbstractAsyncContextManager[Any]]],
        is_fit: Callable[[], bool],
        reach: Callable[[], Awaitable[None]],
    ) -> None:
        """Prepare.

        Args:
            make: makes the SDK's workers.
            is_fit: whether this process may take tasks.
            reach: waits until Temporal is there; a worker of the SDK fails at once where it is not.
        """
        self._make = make
        self._is_fit = is_fit
        self._reach = reach
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
        is_reached = self._is_fit()  # whoever starts this has reached Temporal
        while True:
            if not is_reached:
                self._begun.set()
            await self._wait_until(True, looks=1)
            if not is_reached:
                await self._reach()
            is_reached = False
            async with AsyncExitStack() as polling:
                for worker in self._make():
                    await polling.enter_async_context(worker)
                self._begun.set()
                # After the process has stood still, its next beat is due, and so is this look.
                await self._wait_until(False, looks=2)
                _log.warning("polling_stops")
            _log.info("polling_stopped")

    async def _wait_until(self, fit: bool, looks: int) -> None:
        """Wait until this process is fit, or is not, in so many looks in a row."""
        seen = 0
        while (seen := seen + 1 if self._is_fit() is fit else 0) < looks:
            await asyncio.sleep(_LOOK_SECONDS)
