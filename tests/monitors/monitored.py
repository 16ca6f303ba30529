"""A target that is looked up day after day, without servers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from models.monitors.comparison import Comparison, compare
from models.monitors.conditions import keep_wanted, read_conditions
from models.monitors.fields import watch
from models.monitors.first_hearing import Dating
from models.monitors.snapshots import Said, Snapshot, carry_over
from tests.monitors.worlds import EDITIONS, KINDS, MOMENT, answer, fields_of

DAY = timedelta(days=1)


class Monitored:
    """A target that is looked up day after day."""

    def __init__(
        self,
        kind: str,
        tracked: Collection[str] = (),
        ignored: Collection[str] = (),
        tolerance: Mapping[str, float] | None = None,
        when: Sequence[Mapping[str, Any]] = (),
        network_of: Callable[[str], str] | None = None,
    ) -> None:
        self.kind = KINDS[kind]
        known = fields_of(self.kind)
        self.watch = watch(kind, known, tracked, ignored, tolerance, network_of)
        self.allowed = watch(kind, known, (), (), tolerance, network_of)
        self.conditions = read_conditions(when)
        self.moment = MOMENT
        self.last: Snapshot | None = None
        self.dating: Dating | None = None

    def run(self, said: Said, editions: Mapping[str, str] = EDITIONS) -> Comparison:
        """Look it up: its sources say this."""
        new = carry_over(self.last, said, self.moment, editions)
        found = compare(self.last, new, self.watch, self.compose, self.allowed, self.dating)
        found = keep_wanted(self.last, found, self.watch, self.conditions)
        self.last, self.moment = found.snapshot, self.moment + DAY
        return found

    def compose(self, words: Said) -> dict[str, Any]:
        """The answer that sources give who say this."""
        return answer(self.kind, words, self.moment)

    def answer(self) -> dict[str, Any]:
        """The answer that is shown of it now."""
        assert self.last
        return answer(self.kind, self.last.said, self.moment)


def changes(kind: str, *runs: Said, **settings: Any) -> dict[str, Any] | None:
    """Return what the last of these runs tells."""
    monitored = Monitored(kind, **settings)
    return [monitored.run(said).changes for said in runs][-1]
