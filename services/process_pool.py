"""Processor-bound work, done in processes beside this one.

Threads would share the interpreter with the event loop, so expensive work would delay all other requests. A
process of the pool yields to processes that answer requests, has bounded memory, and can be killed; only its
current work is lost then.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import logs
from models.errors import Unavailable
from process import python_like_this
from services.keyed_locks import KeyedLocks
from services.pool_process import LENGTH_BYTES, WorkResult, frame_message

_SIZE = 2
# Work with a counted budget ends within one or two seconds, even on a busy machine.
_SECONDS = 20.0
_PATIENCE_SECONDS = 30.0
# Code that evaluates foreign expressions needs no secrets.
_KEPT_FROM_IT = ("VEDETTE_", "TEMPORAL_", "DATABASE_URL")
_PROGRAM = "from services.pool_process import main; main()"
_ROOT = Path(__file__).absolute().parents[1]

_log = logs.get(__name__)

P = ParamSpec("P")
T = TypeVar("T")
Ask = Callable[[Any], Any]
"""A callback for the work: it sends a question to the caller of `run`, and returns the answer."""


class WorkLost(Unavailable):
    """The process that did the work ended, or was killed because it took too long."""

    def __init__(self) -> None:
        super().__init__("work_lost", "The process that worked on this ended before it was done; try again.")


class PoolBusy(Unavailable):
    """The work could not be started, because the pool is busy."""

    def __init__(self) -> None:
        super().__init__("too_busy", "Too many others have work of this kind; try again.", retry_after=5)


class ProcessPool:
    """Up to two processes, started on first use, or before (`warm`)."""

    def __init__(self, seconds: float = _SECONDS, patience: float = _PATIENCE_SECONDS) -> None:
        """Prepare.

        Args:
            seconds: after which a busy process is killed.
            patience: seconds that work waits to be started.
        """
        self._seconds = seconds
        self._patience = patience
        self._places = asyncio.Semaphore(_SIZE)
        self._locks = KeyedLocks()
        self._processes: set[Process] = set()
        self._idle: list[Process] = []

    @property
    def pids(self) -> list[int]:
        """Return the process ids of the running processes."""
        return [process.pid for process in self._processes if process.returncode is None]

    @property
    def busy(self) -> int:
        """Return the number of processes that have work."""
        return len(self._processes) - len(self._idle)

    async def run(
        self,
        owner: Hashable,
        answer: Callable[[Any], Awaitable[Any]] | None,
        work: Callable[Concatenate[Ask, P], T],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """Run `work(ask, …)` in a process of the pool.

        Args:
            owner: the owner of the work. An owner has one process at a time, however much it requests at
                once.
            answer: answers the questions of the work.
            work: a function of a module, which the process imports.
            arguments: its arguments; they and the result are pickled.
            named: the keyword arguments.

        Raises:
            PoolBusy: it could not be started in time.
            WorkLost: the process ended, was killed, or exceeded its time.
        """
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(self._patience):
                    await held.enter_async_context(self._locks.hold(owner))
                    await held.enter_async_context(self._places)
            except TimeoutError:
                raise PoolBusy from None
            process = await self._take_process()
            try:
                async with asyncio.timeout(self._seconds):
                    result = await _do_order(process, answer, (work, arguments, named))
            except (TimeoutError, asyncio.IncompleteReadError, ConnectionError) as error:
                _log.warning("work_lost", work=work.__name__, reason=type(error).__name__)
                raise WorkLost from None
            else:
                self._idle.append(process)
                return result
            finally:
                if process not in self._idle:
                    await self._end(process)

    async def warm(self, work: Callable[[Ask], object]) -> None:
        """Start all processes and run `work` in each, so that later callers need not wait for its imports.

        A process that is lost meanwhile is started on its next use.
        """
        with suppress(WorkLost, PoolBusy):
            await asyncio.gather(*(self.run(place, None, work) for place in range(_SIZE)))

    async def close(self) -> None:
        """End the processes."""
        for process in list(self._processes):
            await self._end(process)

    async def _take_process(self) -> Process:
        while self._idle:
            process = self._idle.pop()
            if process.returncode is None:
                return process
            self._processes.discard(process)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _PROGRAM, stdin=PIPE, stdout=PIPE, cwd=_ROOT,
            env={name: value for name, value in os.environ.items() if not name.startswith(_KEPT_FROM_IT)},
            start_new_session=True,  # the terminal's Ctrl-C must not end it: it ends with its standard input
            **python_like_this(),
        )  # fmt: skip
        self._processes.add(process)
        return process

    async def _end(self, process: Process) -> None:
        self._processes.discard(process)
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _do_order(process: Process, answer: Callable[[Any], Awaitable[Any]] | None, order: Any) -> Any:
    assert process.stdin is not None and process.stdout is not None
    message: Any = order
    while True:
        process.stdin.write(frame_message(message))
        await process.stdin.drain()
        length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES))
        said = pickle.loads(await process.stdout.readexactly(length))
        if isinstance(said, WorkResult):
            return said.result
        assert answer is not None
        message = await answer(said)
