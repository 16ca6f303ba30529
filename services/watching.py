"""Looking at a target again: its answer and what was known of it → what is to be recorded."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any

import orjson

from models.errors import Invalid, ModelError
from models.monitors import snapshots
from models.monitors.comparison import compare
from models.monitors.conditions import keep_wanted, read_conditions
from models.monitors.fields import known_fields, watch
from models.monitors.snapshots import Snapshot, carry_over, content_hash
from models.monitors.working import Chunk, Found
from providers.base import Kind, Query
from providers.composing import compose
from providers.hearing import is_heard_of
from providers.registry import KINDS
from providers.result import LookupResult, suppressed
from providers.retelling import WHOLE, editions, filled_up, retell, said

Stored = tuple[bytes, bytes]
"""The hash of what was known of a target, and that itself, as `models.monitors.working` keeps them."""


class Watching:
    """What is the same for all targets of a chunk."""

    def __init__(self, chunk: Chunk, network_of: Callable[[str], str] | None = None) -> None:
        """Prepare, from what the monitor tracks.

        Args:
            chunk: of the run.
            network_of: address → its network and country; without it, addresses are compared as they are.
        """
        self._chunk = chunk
        self.kind: Kind = KINDS[chunk.type]
        known = known_fields(self.kind.answer)
        self._forms = watch(self.kind.name, known)
        # The data may be replaced meanwhile: an address is asked for once, and both times the same.
        network_of = network_of and cache(network_of)
        self._allowed = watch(self.kind.name, known, (), (), chunk.tolerance, network_of)
        self._watch = watch(
            self.kind.name, known, chunk.tracked_fields, chunk.ignored_fields, chunk.tolerance, network_of
        )
        self._conditions = read_conditions(chunk.when)

    @property
    def max_age(self) -> float:
        """How old a kept answer may be, in seconds, to count as one of this run.

        One that the run before has seen tells nothing of what has changed since. One from before the monitor
        was made is no baseline.
        """
        if self._chunk.full_refresh:
            return 0
        half = self._chunk.period.total_seconds() / 2
        since = self._chunk.before or self._chunk.created_at
        return max(0.0, min(half, (datetime.now(UTC) - since).total_seconds()))

    def judge(self, position: int, target: str, stored: Stored | None, result: LookupResult) -> Found:
        """Compare the answer of a target with what was known of it.

        Args:
            position: of the target in the run.
            target: in its normal form.
            stored: what was known of it; None if nothing was.
            result: of its lookup.
        """
        if suppressed(result.outcomes):
            message = "Nothing is to be looked up of this person."
            return self._failed(position, target, "suppressed", message, forgotten=True)
        last = None if stored is None else snapshots.load(stored[1])
        moment = datetime.now(UTC)
        query = self.kind.normalise(target, "")
        # As it will be read: what is equal now is equal then.
        words = orjson.loads(orjson.dumps(said(result.outcomes)))
        new = carry_over(last, words, moment, editions(result.outcomes))

        def answer(words: snapshots.Said) -> dict[str, Any]:
            return retell(self.kind, query, words, moment).data

        comparison = compare(last, new, self._watch, answer, self._allowed)
        comparison = keep_wanted(last, comparison, self._watch, self._conditions)
        digest = content_hash(comparison.snapshot.said, self._forms)
        data = None
        if stored is None or stored[0] != digest or self._chunk.full_refresh:
            data = _text(self._data(query, result, last, moment))
        return Found(
            self._chunk.run_id,
            position,
            self._chunk.monitor_id,
            target,
            changes=None if comparison.changes is None else _text(comparison.changes),
            details=_text(comparison.details) if comparison.details else None,
            baseline=snapshots.dump(comparison.snapshot).decode(),
            content_hash=digest,
            data=data,
            heard=is_heard_of(self.kind, result.outcomes, self._watch),
        )

    def fail(self, position: int, target: str, error: ModelError) -> Found:
        """Say that a target could not be looked up: what was known of it stands."""
        # There is no body of a request in which the target stood somewhere.
        message = error.errors[0].message if isinstance(error, Invalid) else error.message
        return self._failed(position, target, error.code, message)

    def _failed(
        self, position: int, target: str, code: str, message: str, *, forgotten: bool = False
    ) -> Found:
        error = _text({"code": code, "message": message})
        chunk = self._chunk
        return Found(chunk.run_id, position, chunk.monitor_id, target, error=error, forgotten=forgotten)

    def _data(
        self, query: Query, result: LookupResult, last: Snapshot | None, moment: datetime
    ) -> dict[str, Any]:
        outcomes = filled_up(result.outcomes, {} if last is None else last.said)
        return compose(self.kind, query, outcomes, moment, limit=WHOLE).data


def _text(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_UTC_Z).decode()
