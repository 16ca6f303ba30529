"""May a source be asked now? Its bucket and breaker, in Postgres for all processes or in this one alone.

A refusal is remembered here until it ends, so that a source which may not be asked costs nothing.
"""

from __future__ import annotations

import time
from collections import Counter

import psycopg

import logs
from database import Database
from models import provider_states
from models.lookups import Status
from models.provider_states import FAILURES_TO_OPEN, MOST_OPEN_SECONDS, OPEN_SECONDS, Admission
from providers.base import RemoteSource, RemoteSpec, SourceError

_log = logs.get(__name__)

# After these failures the next requests would fail alike; how long to leave the source alone.
_RATE_LIMITED_SECONDS, _AUTH_FAILED_SECONDS = 60.0, 300.0

_STATUS: dict[str, Status] = {
    "rate_limited": "rate_limited",
    "auth_failed": "auth_failed",
    "cooling_down": "error",
}


class Gates:
    """The buckets and breakers of all remote sources, as this process sees them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._refused: dict[str, tuple[float, str]] = {}
        self._failures: Counter[str] = Counter()
        self._failing: set[str] = set()

    async def admit(self, source: RemoteSource) -> None:
        """Take leave to ask `source` once.

        Raises:
            SourceError: if it may not be asked now; `retry_after` says when.
        """
        spec = source.spec
        refusal = self.refusal(source)
        if refusal is not None:
            raise refusal
        if not spec.shared:
            return
        try:
            async with self._database.connection() as connection:
                own_bucket = spec.bucket == spec.name
                row, rate = spec.name, spec.rate if own_bucket else None
                admission = await provider_states.admit(connection, row, rate)
                if admission.admitted and not own_bucket:
                    self._remember(row, admission)
                    row = spec.bucket
                    admission = await provider_states.admit(connection, row, spec.rate)
        except psycopg.Error as fault:
            # Not knowing whether the source may be asked, it is better not to.
            _log.warning("admission_unavailable", source=spec.name, error=type(fault).__name__)
            raise SourceError("error", "database") from fault
        self._remember(row, admission)
        if not admission.admitted:
            assert admission.reason is not None
            raise SourceError(_STATUS[admission.reason], admission.reason, admission.retry_after)

    def refusal(self, source: RemoteSource) -> SourceError | None:
        """Why the source may not be asked now, as far as this process knows; None if it may."""
        for row in (source.spec.name, source.spec.bucket):
            until, reason = self._refused.get(row, (0.0, ""))
            left = until - time.monotonic()
            if left > 0:
                return SourceError(_STATUS[reason], reason, left)
        return None

    async def failed(self, source: RemoteSource, error: SourceError) -> None:
        """Note that the source, asked with leave, failed.

        What its server says of the caller, that it asks too often or may not ask, is true of the account.
        """
        if error.status in ("timeout", "error"):
            self._failing.add(source.spec.name)
        reason, block = None, None
        row = source.spec.name
        if error.status in ("rate_limited", "auth_failed"):
            row = source.spec.bucket
        if error.status == "rate_limited":
            reason, block = "rate_limited", error.retry_after or _RATE_LIMITED_SECONDS
        elif error.status == "auth_failed":
            reason, block = "auth_failed", _AUTH_FAILED_SECONDS
        if source.spec.shared:
            try:
                async with self._database.connection() as connection:
                    admission = await provider_states.fail(connection, row, reason=reason, block=block)
            except psycopg.Error as fault:
                # The lookup has its outcome; that others do not hear of it is no reason to lose it.
                _log.warning("failure_not_noted", source=source.spec.name, error=type(fault).__name__)
                return
        else:
            admission = self._count(source.spec.name)
        self._remember(row, admission)

    async def answered(self, source: RemoteSource) -> None:
        """Note that its server is there, though it did not take the query: its breaker may close."""
        self.succeeded(source)
        if not source.spec.shared:
            return
        try:
            async with self._database.connection() as connection:
                await provider_states.close(connection, source.spec.name)
        except psycopg.Error as fault:
            _log.warning("answer_not_noted", source=source.spec.name, error=type(fault).__name__)

    def succeeded(self, source: RemoteSource) -> None:
        """Note that it answered. Postgres learns that when the answer is kept."""
        self._failures.pop(source.spec.name, None)
        self._failing.discard(source.spec.name)

    def failing(self, name: str) -> bool:
        """Whether the last request to the source `name` from here brought no answer."""
        return name in self._failing

    def open(self, spec: RemoteSpec) -> bool:
        """Whether the source may be asked, as far as this process knows."""
        until = max(self._refused.get(row, (0.0, ""))[0] for row in (spec.name, spec.bucket))
        return until <= time.monotonic()

    def _count(self, name: str) -> Admission:
        """The breaker of a source that has it in the process alone."""
        until, reason = self._refused.get(name, (0.0, ""))
        if reason == "cooling_down" and (left := until - time.monotonic()) > 0:
            return Admission(
                admitted=False, reason="cooling_down", retry_after=left
            )  # asked before it opened
        self._failures[name] += 1
        over = self._failures[name] - FAILURES_TO_OPEN
        if over < 0:
            return Admission(admitted=True)
        seconds = min(MOST_OPEN_SECONDS, OPEN_SECONDS * 2 ** min(over, 10))
        return Admission(admitted=False, reason="cooling_down", retry_after=seconds)

    def _remember(self, name: str, admission: Admission) -> None:
        if admission.admitted:
            self._refused.pop(name, None)
        else:
            self._refused[name] = (time.monotonic() + admission.retry_after, admission.reason or "")
