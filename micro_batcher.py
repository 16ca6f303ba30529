"""One statement for all who wait at the same moment, as a database commits transactions in groups.

While a group is on its way, what comes waits and goes with the next: a lone request goes at once, and under
load the groups grow by themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

import psycopg
from psycopg_pool import PoolTimeout

Asked = TypeVar("Asked")
Given = TypeVar("Given")

MOST_BYTES = 1024 * 1024
"""What a group holds at most; one that is larger goes alone."""


class _Waiting(NamedTuple, Generic[Asked, Given]):
    asked: Asked
    size: int
    future: asyncio.Future[Given]


class MicroBatcher(Generic[Asked, Given]):
    """Asks for many what each asks for one; an exception among the answers is raised for that one only."""

    def __init__(
        self,
        ask: Callable[[list[Asked]], Awaitable[list[Given | Exception]]],
        *,
        size: Callable[[Asked], int] = lambda _: 0,
        most: int = 64,
        in_flight: int = 1,
    ) -> None:
        """Prepare.

        Args:
            ask: gives one answer for each that is asked, in their order. When it raises what one of them may
                be at fault for, each half is asked for again, until that one is alone: to be asked twice for
                the same must do no harm.
            size: of one that is asked, in bytes.
            most: how many a group holds.
            in_flight: how many groups are on their way at a time.
        """
        self._ask = ask
        self._size = size
        self._most = most
        self._in_flight = in_flight
        self._waiting: list[_Waiting[Asked, Given]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, asked: Asked) -> asyncio.Future[Given]:
        """Give the answer for one. Whoever stops waiting for it may have been served all the same."""
        future: asyncio.Future[Given] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(asked, self._size(asked), future))
        # One that has just come to its end is among them until the loop goes on: it serves nobody any more.
        if sum(not task.done() for task in self._tasks) < self._in_flight:
            task = asyncio.create_task(self._serve(), name="micro-batcher")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return future

    async def _serve(self) -> None:
        while self._waiting:
            group = self._next_group()
            try:
                answers = await self._answers([one.asked for one in group])
            except PoolTimeout as error:
                # Nobody gets a connection: whoever waits behind them would only wait as long again.
                group, self._waiting = group + self._waiting, []
                answers = [error] * len(group)
            for one, answer in zip(group, answers, strict=True):
                if one.future.done():
                    continue
                if isinstance(answer, Exception):
                    one.future.set_exception(answer)
                else:
                    one.future.set_result(answer)

    def _next_group(self) -> list[_Waiting[Asked, Given]]:
        count, room = 0, MOST_BYTES
        for one in self._waiting[: self._most]:
            room -= one.size
            if count and room < 0:
                break
            count += 1
        group, self._waiting = self._waiting[:count], self._waiting[count:]
        return group

    async def _answers(self, asked: list[Asked]) -> list[Given | Exception]:
        try:
            return await self._ask(asked)
        except PoolTimeout:
            raise
        except Exception as error:
            if len(asked) == 1 or not _may_be_the_fault_of_one(error):
                return [error] * len(asked)
        half = len(asked) // 2
        return [*await self._answers(asked[:half]), *await self._answers(asked[half:])]


def _may_be_the_fault_of_one(error: Exception) -> bool:
    """Tell whether one of a group may have caused this error: a value, a locked row, a slow statement.

    Any other error would have met the rest of the group as well.
    """
    return not isinstance(error, psycopg.Error) or isinstance(
        error,
        (
            psycopg.DataError,
            psycopg.IntegrityError,
            psycopg.errors.LockNotAvailable,
            psycopg.errors.ProgramLimitExceeded,
            psycopg.errors.QueryCanceled,
            # What is done for one changes the row of another.
            psycopg.errors.TriggeredDataChangeViolation,
        ),
    )
