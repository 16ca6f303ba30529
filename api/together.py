"""One statement for all who wait at the same moment, as a database commits transactions in groups.

While one is on its way, what comes waits and goes with the next: a lone request goes at once, and under load
the groups grow by themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Asked = TypeVar("Asked")
Given = TypeVar("Given")

_MOST = 64


class Together(Generic[Asked, Given]):
    """Asks for many what each asks for one; an exception among the answers is raised for that one only."""

    def __init__(self, ask: Callable[[list[Asked]], Awaitable[list[Given | Exception]]]) -> None:
        """Prepare. `ask` gives one answer for each that is asked, in their order."""
        self._ask = ask
        self._waiting: list[tuple[Asked, asyncio.Future[Given]]] = []
        self._task: asyncio.Task[None] | None = None

    def one(self, asked: Asked) -> asyncio.Future[Given]:
        """The answer for one. Whoever stops waiting for it may have been served all the same."""
        future: asyncio.Future[Given] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._serve(), name="together")
        return future

    async def _serve(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
            try:
                answers = await self._ask([asked for asked, _ in group])
            except Exception as error:
                # It may be the fault of one of them: alone, each gets its own.
                answers = [error] if len(group) == 1 else [await self._alone(asked) for asked, _ in group]
            for (_, future), answer in zip(group, answers, strict=True):
                if future.done():
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    async def _alone(self, asked: Asked) -> Given | Exception:
        try:
            [answer] = await self._ask([asked])
        except Exception as error:
            return error
        return answer
