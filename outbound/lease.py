"""The right of this process to begin calls, which others take over after a long silence of this process."""

from __future__ import annotations

from typing import Protocol


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
