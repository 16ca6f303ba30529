"""The right of this process to begin calls: others take over what it had once it has been silent for long."""

from __future__ import annotations

from typing import Protocol


class Lease(Protocol):
    """Under which a process makes calls."""

    @property
    def lost(self) -> bool:
        """Whether others have what was begun under it."""
        ...

    @property
    def can_start_calls(self) -> bool:
        """Whether a call may begin now."""
        ...


class LeaseLost(Exception):
    """The lease under which a call waited for its turn was lost: whoever has taken over makes the call."""


class Free:
    """The lease of a process whose calls nobody takes over."""

    lost = False
    can_start_calls = True


class Lost:
    """The lease of a process that has none at the moment."""

    lost = True
    can_start_calls = False
