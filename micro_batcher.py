"""Micro-batching: one statement for all callers that wait at the same moment, like group commits.

While a group is in flight, new requests wait for the next one: a lone request is sent at once, and under load
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
"""The highest size of a group in bytes; a larger request is sent alone."""


class _Waiting(NamedTuple, Generic[Asked, Given]):
    asked: Asked
    size: int
    future: asyncio.Future[Given]


class MicroBatcher(Generic[Asked, Given]):
    """Asks for many requests at once; an exception among the answers is raised only for its own request."""

    def __init__(
        self,
        ask: Callable[[list[Asked]], Awaitable[list[Given | Exception]]],
        *,
        size: Callable[[Asked], int] = lambda _: 0,
        most: int = 64,
        in_flight: int = 1,
    ) -> None:
        """Create the batcher.

        Args:
            ask: returns one answer for each request, in order. If it raises an error that a single request
                may have caused, it is called again with each half, until that request is alone: therefore a
                repeated request must do no harm.
            size: the size of a request, in bytes.
            most: the highest number of requests in a group.
            in_flight: the highest number of groups in flight.
        """
        self._ask = ask
        self._size = size
        self._most = most
        self._in_flight = in_flight
        self._waiting: list[_Waiting[Asked, Given]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, asked: Asked) -> asyncio.Future[Given]:
        """Return the future answer to one request.

        A request may be executed even if its caller stops waiting.
        """
        future: asyncio.Future[Given] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(asked, self._size(asked), future))
        # A task that has just ended stays in the set until the loop continues, but serves no requests any
        # more.
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
                # No connection is available: the requests behind these would only wait as long again.
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
    """Return whether one request of a group may have caused this error: a value, a lock, a slow statement.

    Any other error would affect the rest of the group as well.
    """
    return not isinstance(error, psycopg.Error) or isinstance(
        error,
        (
            psycopg.DataError,
            psycopg.IntegrityError,
            psycopg.errors.LockNotAvailable,
            psycopg.errors.ProgramLimitExceeded,
            psycopg.errors.QueryCanceled,
            psycopg.errors.StatementTooComplex,
            # The work for one request changes the row of another.
            psycopg.errors.TriggeredDataChangeViolation,
        ),
    )
