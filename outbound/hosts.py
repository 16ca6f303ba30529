"""Fewer places for a host that keeps hanging, so that it takes none from an owner's other hosts."""

from __future__ import annotations

import asyncio

from concurrency import Hold, Line

HANGING_SECONDS = 5.0
_IN_A_ROW = 3


class _Host(Line):
    """An owner's calls to one host, and how many of the last calls hung."""

    def __init__(self) -> None:
        super().__init__()
        self.hung = 0


class HostLimiter:
    """Bounds the calls to hosts whose last three calls hung; a call that does not hang ends that.

    Hosts are tracked per owner, so that no owner can slow down a host for others. The record of a host is
    dropped when it has no more calls.
    """

    def __init__(self, places: int) -> None:
        """Allow an owner `places` concurrent calls to a hanging host."""
        self._places = places
        self._hosts: dict[tuple[str, str], _Host] = {}

    def hold(self, owner: str, host: str) -> Hold:
        """Hold a place at `host` for the block; call `note` within it with the outcome of the call."""
        return Hold(lambda: self._take(owner, host), lambda: self._leave(owner, host))

    async def _take(self, owner: str, host: str) -> None:
        one = self._hosts.get((owner, host))
        if one is None:
            one = self._hosts[owner, host] = _Host()
        if not one.waiting and self._may_begin(one):
            one.held += 1
            return
        try:
            await one.wait(lambda: self._grant(one), lambda: self._release(one))
        except asyncio.CancelledError:
            self._tidy(owner, host, one)
            raise

    def _leave(self, owner: str, host: str) -> None:
        one = self._hosts[owner, host]
        self._release(one)
        self._tidy(owner, host, one)

    def note(self, owner: str, host: str, *, hung: bool) -> None:
        """Record whether a running call to `host` hung: it took over 5 seconds, or timed out."""
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

    def _tidy(self, owner: str, host: str, one: _Host) -> None:
        if one.empty:
            self._hosts.pop((owner, host), None)
