"""The comparison of a target's new answer with its stored one, and the record that follows from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

import orjson

from models.errors import DomainError, Invalid
from models.lookups.silence import Reason
from models.monitors import snapshots
from models.monitors.comparison import compare
from models.monitors.conditions import keep_wanted, read_conditions
from models.monitors.defaults import DEFAULTS
from models.monitors.fields import known_fields, watch
from models.monitors.first_hearing import Dating
from models.monitors.queue import Chunk, TargetResult
from models.monitors.snapshots import Snapshot, carry_over, content_hash
from providers.lookup.composition import Selection, compose
from providers.lookup.coverage import answering, is_heard_of, silences
from providers.lookup.replay import WHOLE, collect_said, editions, filled_up, retell
from providers.lookup.result import REFUSING, LookupResult, SourceResults, is_suppressed, outcome_of
from providers.registry import KINDS
from providers.sources.base import Query
from providers.sources.kind import Kind

Stored = tuple[bytes, bytes]
"""The hash of a target's stored snapshot, and the snapshot, as `models.monitors.queue` stores them."""


class Watching:
    """The settings that all targets of a chunk share."""

    def __init__(
        self, chunk: Chunk, network_of: Callable[[str], str] | None = None, *, patient: bool = False
    ) -> None:
        """Prepare, from the fields that the monitor tracks.

        Args:
            chunk: of the run.
            network_of: address → its network and country; without it, addresses are compared as they are.
            patient: whether targets have already waited as long as possible for sources over their limits.
        """
        self._chunk = chunk
        self._patient = patient
        self.kind: Kind = KINDS[chunk.type]
        known = known_fields(self.kind.answer)
        self._forms = watch(self.kind.name, known)
        # The data may be replaced meanwhile, so each address is resolved once for both comparisons.
        network_of = network_of and cache(network_of)
        self._allowed = watch(self.kind.name, known, (), (), chunk.tolerance, network_of)
        self._watch = watch(
            self.kind.name, known, chunk.tracked_fields, chunk.ignored_fields, chunk.tolerance, network_of
        )
        self._dating = Dating(chunk.created_at, DEFAULTS[chunk.type].dates)
        self._conditions = read_conditions(chunk.when)
        self.absent: dict[str, Reason] = {}
        """The sources of tracked fields that never had a key or are left out, as reported by answers so far.
        """

    @property
    def max_age(self) -> float:
        """The greatest age of a cached answer, in seconds, that counts as one of this run.

        An answer that the previous run used cannot show a later change, and one from before the monitor's
        creation is no baseline.
        """
        # An answer since the start of the run is recent enough for a target that waits.
        began = self._chunk.started_at
        own = 0.0 if began is None else (datetime.now(UTC) - began).total_seconds()
        if self._chunk.full_refresh:
            return max(0.0, own)
        half = self._chunk.period.total_seconds() / 2
        since = self._chunk.before or self._chunk.created_at
        return max(0.0, own, min(half, (datetime.now(UTC) - since).total_seconds()))

    def waits_of(self, looked: LookupResult | DomainError) -> dict[str, float]:
        """Return for how many seconds each source of tracked fields is over its limit.

        For a source with one server per registry, the name includes the server.
        """
        outcomes = self._outcomes(looked)
        limited = self._find_limited_sources(outcomes)
        return {
            f"{source.spec.name}/{outcome.server}" if outcome.server else source.spec.name: (
                outcome.retry_after or 1.0
            )
            for source, outcome in outcomes
            if source.spec.name in limited and outcome.detail != REFUSING
        }

    def _find_limited_sources(self, outcomes: SourceResults) -> set[str]:
        """Return the sources of tracked fields that are over their limits, waited for or not."""
        found = silences(self.kind, outcomes, self._watch)
        return {name for name, why in found.items() if why == "limited"}

    def judge(self, position: int, target: str, stored: Stored | None, result: LookupResult) -> TargetResult:
        """Compare the answer of a target with its stored snapshot.

        Args:
            position: of the target in the run.
            target: in its normal form.
            stored: the snapshot; None if there is none.
            result: of its lookup.
        """
        if is_suppressed(result.outcomes):
            message = "Nothing is to be looked up of this person."
            return self._make_failure(position, target, "suppressed", message, forgotten=True)
        last = None if stored is None else snapshots.load(stored[1])
        moment = datetime.now(UTC)
        query = self.kind.normalise(target, "")
        # In the form in which it will be read, so that equal values stay equal.
        words = orjson.loads(orjson.dumps(collect_said(result.outcomes)))
        new = carry_over(last, words, moment, editions(result.outcomes))

        def answer(words: snapshots.Said) -> dict[str, Any]:
            return retell(self.kind, query, words, moment).data

        comparison = compare(last, new, self._watch, answer, self._allowed, self._dating)
        comparison = keep_wanted(last, comparison, self._watch, self._conditions)
        digest = content_hash(comparison.snapshot.said, self._forms)
        data = None
        if stored is None or stored[0] != digest or self._chunk.full_refresh:
            data = _text(self._data(query, result, last, moment))
        return TargetResult(
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
            silent=self._silent(result.outcomes, last),
            unheard=bool(self._find_limited_sources(result.outcomes)),
            first_heard=_text(comparison.first_heard) if comparison.first_heard else None,
            answered=answering(self.kind, result.outcomes, self._watch),
        )

    def fail(self, position: int, target: str, stored: Stored | None, error: DomainError) -> TargetResult:
        """Return the record of a target that could not be looked up; its snapshot stays."""
        silent = self._silent(self._outcomes(error), None if stored is None else snapshots.load(stored[1]))
        # A monitor's target has no position in a request body, so the pointer is left out.
        message = error.errors[0].message if isinstance(error, Invalid) else error.message
        unheard = bool(self._find_limited_sources(self._outcomes(error)))
        return replace(
            self._make_failure(position, target, error.code, message), silent=silent, unheard=unheard
        )

    def _outcomes(self, looked: LookupResult | DomainError) -> SourceResults:
        """Return the outcomes of the sources; for a failure, of those that it names."""
        if isinstance(looked, LookupResult):
            return looked.outcomes
        reports = {report["name"]: report for report in looked.details.get("providers", ())}
        return [
            (source, outcome_of(reports[source.spec.name]))
            for source in self.kind.sources
            if source.spec.name in reports
        ]

    def _make_failure(
        self, position: int, target: str, code: str, message: str, *, forgotten: bool = False
    ) -> TargetResult:
        error = _text({"code": code, "message": message})
        chunk = self._chunk
        return TargetResult(
            chunk.run_id, position, chunk.monitor_id, target, error=error, forgotten=forgotten
        )

    def _silent(self, outcomes: SourceResults, last: Snapshot | None) -> str | None:
        """Return the silent sources of tracked fields, as JSON.

        A source that never had a key makes an answer incomplete only if the monitor names its fields.
        """
        silent: list[dict[str, Any]] = []
        details = {source.spec.name: outcome.detail for source, outcome in outcomes}
        for name, why in silences(self.kind, outcomes, self._watch).items():
            if why == "no_key" and name not in self._chunk.heard_before:
                why = "no_key" if self._chunk.tracked_fields else "not_set_up"
                self.absent[name] = why
            elif why == "bulk_use":
                self.absent[name] = why
            elif why == "limited" and self._patient and details[name] != REFUSING:
                why = "quota"
            since = None if last is None else last.heard.get(name)
            silent.append({"source": name, "since": since, "why": why})
        return _text(silent) if silent else None

    def _data(
        self, query: Query, result: LookupResult, last: Snapshot | None, moment: datetime
    ) -> dict[str, Any]:
        outcomes = filled_up(result.outcomes, {} if last is None else last.said)
        return compose(self.kind, query, outcomes, moment, Selection(limit=WHOLE)).data


def _text(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_UTC_Z).decode()
