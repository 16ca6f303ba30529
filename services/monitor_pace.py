"""Which targets of a monitor's run wait for which sources, and until when.

Sources that are over their limits have only those targets wait that lack them. A target is looked at again
when one of its sources is open: one at a time for each source, and more while they come through.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

NOBODY = ""
"""Stands for the source of a target that waits for none, but for another try."""


@dataclass(eq=False)
class WaitingTarget:
    """A target that is still to be looked at.

    Attributes:
        tries: how often it was looked at once more because of another failure than limits.
        due: not before this moment.
        sources: those that it waits for; none before it was looked at.
        waits_for: the one of these for which it is looked at now.
    """

    position: int
    target: str
    tries: int = 0
    due: float = 0.0
    sources: frozenset[str] = frozenset()
    waits_for: str = NOBODY


@dataclass
class Pace:
    """The targets that are left of a chunk.

    Attributes:
        now: the clock.
        ends: from this moment on, no target waits.
        left: all that are left and not looked at now, in their order.
    """

    now: Callable[[], float]
    ends: float
    left: list[WaitingTarget]
    _opens: dict[str, float] = field(default_factory=dict[str, float])
    _widths: dict[str, int] = field(default_factory=dict[str, int])
    _flying: Counter[str] = field(default_factory=Counter[str])

    @property
    def is_over(self) -> bool:
        """Whether no target may wait any more."""
        return self.now() >= self.ends

    def take(self) -> WaitingTarget | None:
        """Take the next target that need not wait; None if all must."""
        for place, one in enumerate(self.left):
            name = self._open_source(one)
            if name is not None:
                one.waits_for = name
                self._flying[name] += 1
                return self.left.pop(place)
        return None

    def land(self, one: WaitingTarget, waits: Mapping[str, float]) -> bool:
        """Note for which limited sources, and how many seconds, a target that was looked at would wait.

        Returns:
            Whether it waits: it does not if none of them is open again in time.
        """
        name = one.waits_for
        self._flying[name] -= 1
        self._widths[name] = 1 if name in waits else self._widths.get(name, 1) + 1
        now = self.now()
        for source, seconds in waits.items():
            self._opens[source] = max(self._opens.get(source, 0.0), now + seconds)
        if self.is_over or all(now + seconds >= self.ends for seconds in waits.values()):
            return False
        self.put_back(one, waits)
        return True

    def put_back(self, one: WaitingTarget, sources: Iterable[str] = (), seconds: float = 0.0) -> None:
        """Have a target wait for these sources, and at least so long."""
        one.sources, one.due = frozenset(sources), self.now() + seconds
        self.left.append(one)
        self.left.sort(key=lambda each: each.position)

    def seconds(self) -> float:
        """Return how long all that is left has to wait."""
        return max(0.0, min(self.waits().values(), default=0.0))

    def waits(self) -> dict[str, float]:
        """Return what is left waits for: the sources, with the seconds until each is open."""
        waits: dict[str, float] = {}
        for one in self.left:
            for name in one.sources or (NOBODY,):
                due = max(one.due, min(self._opens.get(name, 0.0), self.ends))
                waits[name] = max(0.0, min(waits.get(name, due), due - self.now()))
        return waits

    def _open_source(self, one: WaitingTarget) -> str | None:
        """The source for which a target can be looked at now; None if it has to wait."""
        if one.due > self.now():
            return None
        if self.is_over or not one.sources:
            return NOBODY
        for name in sorted(one.sources):
            if self._opens.get(name, 0.0) <= self.now() and self._flying[name] < self._widths.get(name, 1):
                return name
        return None
