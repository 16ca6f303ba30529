"""Claim requests: which runs a claim may take, and from which queues and accounts it takes them first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from models.priorities import WAITED
from models.runs.claim_order import KEPT, WINDOW, Turn, priorities_to_serve

MAX_ROWS = 256
"""The highest number of runs in a claim."""
ACCOUNT_WINDOW = 512
"""The highest number of runs of one account that a worker has at work."""


class Queue(NamedTuple):
    """A queue of runs: those of an account at one priority and one gate."""

    priority: int
    account_id: UUID
    gate: UUID


@dataclass(frozen=True)
class Mark:
    """The times from which an account's queue without a gate has work: begun runs, and others."""

    priority: int
    account_id: UUID
    begun_from: datetime
    new_from: datetime


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """The runs that a claim may take.

    Attributes:
        room: the number of further runs that the worker has room for.
        rows: the highest number of runs to claim.
        account_window: the highest number of runs of an account that the worker may have at work.
        at_work: the number of runs that it has at work, by account.
        turn: the position in the order of accounts.
        marks: the low-water marks of queues: older rows need not be read.
        first: the priority that is served first.
        alone: claim only runs that were lost twice with their worker.
        own: claim only runs that need a workflow of their own.
        on_read: called with the rows of the index that the claim has read, and the runs that it got.
    """

    room: int = WINDOW
    rows: int = MAX_ROWS
    account_window: int = ACCOUNT_WINDOW
    at_work: Mapping[UUID, int] = field(default_factory=dict[UUID, int])
    turn: Turn = field(default_factory=Turn)
    marks: Sequence[Mark] = ()
    first: int = WAITED
    alone: bool = False
    own: bool = False
    on_read: Callable[[int, int], None] = lambda _rows, _runs: None

    @property
    def priorities(self) -> list[int]:
        """The priorities that are served, in order."""
        return priorities_to_serve(self.room, first=self.first, alone=self.alone)

    @property
    def most_rows(self) -> int:
        """The highest number of runs to claim, without those for which room is reserved."""
        return min(self.rows, self.room - KEPT) if self.room > KEPT else self.rows
