"""One statement for all who wait at the same moment, as a database commits transactions in groups.

While one is on its way, what comes waits and goes with the next: a lone request goes at once, and under load
the groups grow by themselves.
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
_MOST = 64


class _Waiting(NamedTuple, Generic[Asked, Given]):
    asked: Asked
    size: int
    future: asyncio.Future[Given]


class Together(Generic[Asked, Given]):
    """Asks for many what each asks for one; an exception among the answers is raised for that one only."""

    def __init__(
        self,
        ask: Callable[[list[Asked]], Awaitable[list[Given | Exception]]],
        *,
        size: Callable[[Asked], int] = lambda _: 0,
    ) -> None:
        """Prepare.

        Args:
            ask: gives one answer for each that is asked, in their order. When it raises, those who could be
                at fault are asked for again, each alone: to be asked twice for the same must do no harm.
            size: of one that is asked, in bytes.
        """
        self._ask = ask
        self._size = size
        self._waiting: list[_Waiting[Asked, Given]] = []
        self._task: asyncio.Task[None] | None = None

    def one(self, asked: Asked) -> asyncio.Future[Given]:
        """The answer for one. Whoever stops waiting for it may have been served all the same."""
        future: asyncio.Future[Given] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(asked, self._size(asked), future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._serve(), name="together")
        return future

    async def _serve(self) -> None:
        while self._waiting:
            group = self._next_group()
            try:
                answers = await self._ask([one.asked for one in group])
            except PoolTimeout as error:
                # Nobody gets a connection: whoever waits behind them would only wait as long again.
                group, self._waiting = group + self._waiting, []
                answers = [error] * len(group)
            except Exception as error:
                alone = len(group) > 1 and _may_be_the_fault_of_one(error)
                answers = [await self._alone(one.asked) if alone else error for one in group]
            for one, answer in zip(group, answers, strict=True):
                if one.future.done():
                    continue
                if isinstance(answer, Exception):
                    one.future.set_exception(answer)
                else:
                    one.future.set_result(answer)

    def _next_group(self) -> list[_Waiting[Asked, Given]]:
        count, room = 0, MOST_BYTES
        for one in self._waiting[:_MOST]:
            room -= one.size
            if count and room < 0:
                break
            count += 1
        group, self._waiting = self._waiting[:count], self._waiting[count:]
        return group

    async def _alone(self, asked: Asked) -> Given | Exception:
        try:
            [answer] = await self._ask([asked])
        except Exception as error:
            return error
        return answer


def _may_be_the_fault_of_one(error: Exception) -> bool:
    """What the database says of a value; all else that it says is as true of the others."""
    return not isinstance(error, psycopg.Error) or isinstance(
        error, (psycopg.DataError, psycopg.IntegrityError)
    )
