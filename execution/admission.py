"""The admission of this worker's build: an operator may try a build with a share of the work, or drain it."""

from __future__ import annotations

import logs
from models.runs.builds import UNNAMED, WHOLE_SHARE, BuildState

_log = logs.get(__name__)


class Admission:
    """The share of the work that this worker may take, as its last beat found.

    Attributes:
        build: the name of the code.
        first_state: the state of a build that nobody knows yet.
        share: the runs that this worker may have at work, in percent of those of another; 0 for none.
    """

    def __init__(self, build: str = UNNAMED, first_state: BuildState = BuildState.ADMITTED) -> None:
        self.build = build
        self.first_state = first_state
        self.share = WHOLE_SHARE

    @property
    def is_admitted(self) -> bool:
        """Return whether this worker takes work."""
        return self.share > 0

    def set_share(self, share: int) -> None:
        """Record what a beat found."""
        if share != self.share:
            _log.warning("admission_changed", build=self.build, share=share)
            self.share = share

    def share_of(self, most: int) -> int:
        """Return the share of a number, at least 1; 0 if this worker is not admitted."""
        return max(1, most * self.share // WHOLE_SHARE) if self.share else 0
