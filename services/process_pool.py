"""Work that keeps a processor busy, done in processes beside this one.

Threads would share the interpreter with the event loop, so that whoever asks for much keeps all others
waiting. A process of the pool waits for nobody, gives way to those that answer requests, has bounded memory,
and can be killed: then only the work that it was doing is lost.
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
from services.keyed_locks import Turns
from services.pool_process import LENGTH_BYTES, Done, framed

_SIZE = 2
# What counts its work is done within one or two, also on a busy machine.
_SECONDS = 20.0
_PATIENCE_SECONDS = 30.0
# What evaluates the expressions of strangers needs no secret.
_KEPT_FROM_IT = ("VEDETTE_", "TEMPORAL_", "DATABASE_URL")
_PROGRAM = "from services.pool_process import main; main()"
_ROOT = Path(__file__).absolute().parents[1]

_log = logs.get(__name__)

P = ParamSpec("P")
T = TypeVar("T")
Ask = Callable[[Any], Any]
"""What the work may call: it sends a question to whoever ordered the work, and gives the answer."""


class WorkLost(Unavailable):
    """The process that did the work has ended, or was ended since it took too long."""

    def __init__(self) -> None:
        super().__init__("work_lost", "The process that worked on this ended before it was done; try again.")


class PoolBusy(Unavailable):
    """Others have so much work that this was not begun."""

    def __init__(self) -> None:
        super().__init__("too_busy", "Too many others have work of this kind; try again.", retry_after=5)


class ProcessPool:
    """Up to two processes, started when they are first needed, or before (`warm`)."""

    def __init__(self, seconds: float = _SECONDS, patience: float = _PATIENCE_SECONDS) -> None:
        """Prepare.

        Args:
            seconds: after which a process is killed that is not done.
            patience: seconds that work waits to be begun.
        """
        self._seconds = seconds
        self._patience = patience
        self._places = asyncio.Semaphore(_SIZE)
        self._turns = Turns()
        self._processes: set[Process] = set()
        self._idle: list[Process] = []

    @property
    def pids(self) -> list[int]:
        """The process ids of those that run."""
        return [process.pid for process in self._processes if process.returncode is None]

    @property
    def busy(self) -> int:
        """How many have work."""
        return len(self._processes) - len(self._idle)

    async def run(
        self,
        owner: Hashable,
        answer: Callable[[Any], Awaitable[Any]] | None,
        work: Callable[Concatenate[Ask, P], T],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """Do `work(ask, …)` in a process of the pool.

        Args:
            owner: whose work it is. An owner has one place at a time, however much it asks for at once.
            answer: gives the answers to what the work asks.
            work: a function of a module, which the process imports.
            arguments: for it; they and the result are pickled.
            named: as well.

        Raises:
            PoolBusy: it could not be begun in time.
            WorkLost: the process has ended, by itself, by somebody else or by its time.
        """
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(self._patience):
                    await held.enter_async_context(self._turns.of(owner))
                    await held.enter_async_context(self._places)
            except TimeoutError:
                raise PoolBusy from None
            process = await self._taken()
            try:
                async with asyncio.timeout(self._seconds):
                    result = await _done(process, answer, (work, arguments, named))
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
        """Start all processes and have each do `work`, whose module they import: nobody waits for that later.

        One that is lost meanwhile is started when it is needed.
        """
        with suppress(WorkLost, PoolBusy):
            await asyncio.gather(*(self.run(place, None, work) for place in range(_SIZE)))

    async def close(self) -> None:
        """End the processes."""
        for process in list(self._processes):
            await self._end(process)

    async def _taken(self) -> Process:
        while self._idle:
            process = self._idle.pop()
            if process.returncode is None:
                return process
            self._processes.discard(process)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _PROGRAM, stdin=PIPE, stdout=PIPE, cwd=_ROOT,
            env={name: value for name, value in os.environ.items() if not name.startswith(_KEPT_FROM_IT)},
            start_new_session=True,  # the terminal's Ctrl-C is not for it: it ends with its standard input
            **python_like_this(),
        )  # fmt: skip
        self._processes.add(process)
        return process

    async def _end(self, process: Process) -> None:
        self._processes.discard(process)
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _done(process: Process, answer: Callable[[Any], Awaitable[Any]] | None, order: Any) -> Any:
    assert process.stdin is not None and process.stdout is not None
    message: Any = order
    while True:
        process.stdin.write(framed(message))
        await process.stdin.drain()
        length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES))
        said = pickle.loads(await process.stdout.readexactly(length))
        if isinstance(said, Done):
            return said.result
        assert answer is not None
        message = await answer(said)
