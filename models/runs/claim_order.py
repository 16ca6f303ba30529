"""The order of claims: with which priority a claim begins, and after which account and gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from models.priorities import ALONE, BULK, INTERACTIVE, WAITED

WINDOW = 1024
"""The highest number of runs that a worker has at work."""
KEPT = WINDOW // 10
"""The part of that room that is reserved for runs with a waiting client."""
_PRIORITIES = (WAITED, INTERACTIVE, BULK)
# One claim in this many begins with a priority other than the first.
_TURN_OF_ALL = 8
# The highest number of accounts with several gates that a claimer remembers.
_MOST_CURSORS = 1024


def previous_id(account_id: UUID) -> UUID:
    """Return the id before this one in the order of accounts."""
    return UUID(int=max(0, account_id.int - 1))


@dataclass
class Turn:
    """The position of a claimer in the order of accounts and gates.

    Each priority has a position of its own. A shared position would be moved by the priorities that are
    claimed often, so that a rarely claimed one would always return to the same accounts.

    Attributes:
        after: by priority, the account that was served last.
        gates: by priority and account, if the account has several gates, the gate that was served last.
    """

    after: dict[int, UUID] = field(default_factory=dict[int, UUID])
    gates: dict[tuple[int, UUID], UUID] = field(default_factory=dict[tuple[int, UUID], UUID])

    def beginning_with(self, account_id: UUID) -> Turn:
        """Return a turn that begins with this account; the original turn does not change."""
        return Turn(dict.fromkeys(_PRIORITIES, previous_id(account_id)), self.gates)

    def go_on(self, last_accounts: Mapping[int, UUID], last_gates: Mapping[tuple[int, UUID], UUID]) -> None:
        """Advance past an account of each priority, and in some accounts past a gate."""
        self.after.update(last_accounts)
        for of, gate in last_gates.items():
            self.gates.pop(of, None)
            self.gates[of] = gate
        while len(self.gates) > _MOST_CURSORS:
            del self.gates[next(iter(self.gates))]


def priorities_to_serve(room: int, *, first: int, alone: bool) -> list[int]:
    """Return the priorities that a claim serves, in order."""
    if alone:
        return [priority + ALONE for priority in _PRIORITIES]
    if room <= KEPT:
        return [WAITED]
    others = [priority for priority in _PRIORITIES if priority != first]
    return [first, *(reversed(others) if first == BULK else others)]


def first_to_serve(claims: int) -> int:
    """Return the priority that the n-th claim begins with, so that no priority waits for ever."""
    if claims % _TURN_OF_ALL:
        return WAITED
    return INTERACTIVE if claims % (2 * _TURN_OF_ALL) else BULK
