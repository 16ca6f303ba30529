"""Fewer places for a host that keeps hanging, so that it takes none from an owner's other hosts."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

from outbound.concurrency import Line

HANGING_SECONDS = 5.0
_IN_A_ROW = 3


class _Host(Line):
    """What an owner calls at one host, and how many of the last calls hung."""

    def __init__(self) -> None:
        super().__init__()
        self.hung = 0


class HostLimiter:
    """Bounds the calls to hosts of which the last three calls hung; one that does not hang ends that.

    It knows hosts by owner: nobody can have a host that others call as well held back for them. What is
    known of a host is forgotten when no call to it goes on.
    """

    def __init__(self, places: int) -> None:
        """Let an owner have `places` calls at once to a host that hangs."""
        self._places = places
        self._hosts: dict[tuple[str, str], _Host] = {}

    @contextlib.asynccontextmanager
    async def taken(self, owner: str, host: str) -> AsyncGenerator[None]:
        """Have a place at `host` for the time of the block; `note` in it how the call went."""
        one = self._hosts.setdefault((owner, host), _Host())
        try:
            if one.waiting or not self._may_begin(one):
                await one.wait(lambda: self._grant(one), lambda: self._release(one))
            else:
                one.held += 1
            try:
                yield
            finally:
                self._release(one)
        finally:
            if one.empty:
                self._hosts.pop((owner, host), None)

    def note(self, owner: str, host: str, *, hung: bool) -> None:
        """Say of a call that goes on to `host` whether it hung: it took over 5 seconds, or timed out."""
        one = self._hosts[owner, host]
        one.hung = one.hung + 1 if hung else 0
        self._grant(one)

    def _may_begin(self, one: _Host) -> bool:
        return one.hung < _IN_A_ROW or one.held < self._places

    def _grant(self, one: _Host) -> None:
        while one.waiting and self._may_begin(one):
            one.call_next()

    def _release(self, one: _Host) -> None:
        one.held -= 1
        self._grant(one)
