"""The right of this process to begin calls, which others take over after a long silence of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import aiohttp

# The interval at which a call without a lease asks again.
_LEASE_SECONDS = 0.25


class Lease(Protocol):
    """The lease under which a process makes calls."""

    @property
    def lost(self) -> bool:
        """Return whether another process has taken over the work that began under it."""
        ...

    @property
    def can_start_calls(self) -> bool:
        """Return whether a call may begin now."""
        ...


class LeaseLost(Exception):
    """The lease was lost while a call waited for its turn; the process that took over makes the call."""


class Free:
    """The lease of a process whose calls no other process takes over."""

    lost = False
    can_start_calls = True


class Lost:
    """The lease of a process that has none at the moment."""

    lost = True
    can_start_calls = False


_may_begin: ContextVar[Callable[[], bool]] = ContextVar("may_begin", default=lambda: True)


@contextmanager
def calls_begin(may_begin: Callable[[], bool]) -> Generator[None]:
    """Let the calls of the block begin only while `may_begin` allows it; it raises `LeaseLost` if never."""
    token = _may_begin.set(may_begin)
    try:
        yield
    finally:
        _may_begin.reset(token)


async def wait_to_begin() -> None:
    """Wait until the call of this block may begin.

    Raises:
        LeaseLost: it may not, because another process may be making it.
    """
    while not _may_begin.get()():
        await asyncio.sleep(_LEASE_SECONDS)


class LeasedConnector(aiohttp.TCPConnector):
    """Connects; returns the connection only while a call may begin.

    A process can be stopped while it resolves a name and connects. Others take over its calls meanwhile.
    """

    async def connect(self, *args: Any, **kwargs: Any) -> aiohttp.connector.Connection:
        """Return a connection on which a request may be sent now."""
        while True:
            connection = await super().connect(*args, **kwargs)
            try:
                if _may_begin.get()():
                    return connection
            except LeaseLost:
                connection.close()
                raise
            # The server may close it while the call waits.
            connection.close()
            await wait_to_begin()
