"""The waiting targets of a monitor's run: the sources they wait for, and until when.

A source over its limit delays only the targets that need it. A target is looked up again when one of its
sources is open: one at a time for each source, and more as long as they succeed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

NOBODY = ""
"""The source name of a target that waits for no source, but for a retry."""


@dataclass(eq=False)
class WaitingTarget:
    """A target that is still to be looked up.

    Attributes:
        tries: the retries after other failures than limits.
        due: not before this moment.
        sources: the sources that it waits for; empty before the first lookup.
        waits_for: the source among these that triggered the current lookup.
    """

    position: int
    target: str
    tries: int = 0
    due: float = 0.0
    sources: frozenset[str] = frozenset()
    waits_for: str = NOBODY


@dataclass
class Pace:
    """The remaining targets of a chunk.

    Attributes:
        now: the clock.
        ends: the moment from which on no target waits.
        left: all remaining targets that are not being looked up, in order.
    """

    now: Callable[[], float]
    ends: float
    left: list[WaitingTarget]
    _opens: dict[str, float] = field(default_factory=dict[str, float])
    _widths: dict[str, int] = field(default_factory=dict[str, int])
    _flying: Counter[str] = field(default_factory=Counter[str])

    @property
    def is_over(self) -> bool:
        """Return whether the time for waiting is over."""
        return self.now() >= self.ends

    def take(self) -> WaitingTarget | None:
        """Take the next target that need not wait; return None if all must."""
        for place, one in enumerate(self.left):
            name = self._open_source(one)
            if name is not None:
                one.waits_for = name
                self._flying[name] += 1
                return self.left.pop(place)
        return None

    def land(self, one: WaitingTarget, waits: Mapping[str, float]) -> bool:
        """Record which limited sources a finished target would wait for, and for how many seconds.

        Returns:
            Whether it waits; it does not if none of the sources opens in time.

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
        """Put a target back, to wait for these sources and at least this long."""
        one.sources, one.due = frozenset(sources), self.now() + seconds
        self.left.append(one)
        self.left.sort(key=lambda each: each.position)

    def seconds(self) -> float:
        """Return how long all remaining targets have to wait."""
        return max(0.0, min(self.waits().values(), default=0.0))

    def waits(self) -> dict[str, float]:
        """Return the sources that the remaining targets wait for, with the seconds until each opens."""
        waits: dict[str, float] = {}
        for one in self.left:
            for name in one.sources or (NOBODY,):
                due = max(one.due, min(self._opens.get(name, 0.0), self.ends))
                waits[name] = max(0.0, min(waits.get(name, due), due - self.now()))
        return waits

    def _open_source(self, one: WaitingTarget) -> str | None:
        """Return the source that lets a target be looked up now; None if the target has to wait."""
        if one.due > self.now():
            return None
        if self.is_over or not one.sources:
            return NOBODY
        for name in sorted(one.sources):
            if self._opens.get(name, 0.0) <= self.now() and self._flying[name] < self._widths.get(name, 1):
                return name
        return None
