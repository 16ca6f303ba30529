"""The admission of requests to sources, by rate windows and circuit breakers.

Windows and breakers are stored in Postgres for all processes, or in this process alone. A refusal is
remembered here until it ends, so checking a refused source again costs nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from uuid import UUID

import psycopg

import logs
from database import Database
from models.lookups import provider_states, source_quotas
from models.lookups.lookups import Status
from models.lookups.provider_states import FAILURES_TO_OPEN, MOST_OPEN_SECONDS, OPEN_SECONDS, Admission
from providers.lookup.result import REFUSING
from providers.lookup.waiter import Waiter
from providers.sources.base import RemoteSource, RemoteSpec, SourceError
from settings import Settings

_log = logs.get(__name__)

# After this failure further requests would fail in the same way. The source is not asked for this long.
_AUTH_FAILED_SECONDS = 300.0

_STATUS: dict[str, Status] = {
    "rate_limited": "rate_limited",
    REFUSING: "rate_limited",
    "auth_failed": "auth_failed",
    "cooling_down": "error",
}
# With more refused accounts than this, those whose refusal has ended are removed.
_MANY = 1000


class AdmissionControl:
    """The rate windows and circuit breakers of all remote sources, as seen by this process."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._refused: dict[str, tuple[float, str]] = {}
        # Until when a caller gets no request out of a bucket. The account is None for a caller that does not
        # wait.
        self._full: dict[tuple[str, UUID | None], float] = {}
        self._failures: Counter[str] = Counter()
        self._failing: set[str] = set()

    async def admit(self, source: RemoteSource, waiter: Waiter | None) -> None:
        """Acquire permission to send one request to `source`.

        Raises:
            SourceError: if it must not be asked now; `retry_after` holds the seconds to wait.
        """
        spec = source.spec
        refusal = self.find_refusal(source, waiter)
        if refusal is not None:
            raise refusal
        if not spec.shared:
            return
        account_id = waiter and waiter.account_id
        try:
            async with self._database.connection() as connection:
                rates = spec.get_rates(self._settings)
                admission = await source_quotas.admit(connection, spec.name, spec.bucket, rates, account_id)
        except psycopg.Error as fault:
            # Without the database the limits are unknown, so the request is refused.
            _log.warning("admission_unavailable", source=spec.name, error=type(fault).__name__)
            raise SourceError("error", "database") from fault
        if admission.quota:
            self._remember_full((spec.bucket, account_id), admission.retry_after)
        else:
            self._remember(spec.bucket if spec.server else spec.name, admission)
        if not admission.admitted:
            assert admission.reason is not None
            raise SourceError(_STATUS[admission.reason], admission.reason, admission.retry_after)

    def find_refusal(self, source: RemoteSource, waiter: Waiter | None) -> SourceError | None:
        """Return why this process must not ask the source now, or None if it may ask."""
        now = time.monotonic()
        for row in (source.spec.name, source.spec.bucket):
            until, reason = self._refused.get(row, (0.0, ""))
            if until > now:
                return SourceError(_STATUS[reason], reason, until - now)
        until = self._full.get((source.spec.bucket, waiter and waiter.account_id), 0.0)
        return SourceError("rate_limited", "rate_limited", until - now) if until > now else None

    async def admit_server(self, source: RemoteSource, server: str) -> None:
        """Acquire permission to ask another server of the source, as a caller that does not wait.

        Raises:
            SourceError: as `admit`.
        """
        await self.admit(source.bind_server(server), None)

    async def record_failure(self, source: RemoteSource, error: SourceError) -> None:
        """Record that an admitted request to the source failed.

        A server that refuses the caller (too many requests, or no access) refuses the whole account.
        """
        name = row = source.spec.name
        if error.status in ("timeout", "error") and not source.spec.server:
            self._failing.add(name)
        reason, block = None, None
        if source.spec.server or error.status in ("rate_limited", "auth_failed"):
            row = source.spec.bucket
        if error.status == "rate_limited":
            reason, block = "rate_limited", error.retry_after
        elif error.status == "auth_failed":
            reason, block = "auth_failed", _AUTH_FAILED_SECONDS
        # If no server was determined, no request was admitted, so there is no shared row to update.
        if source.spec.shared and bool(source.spec.server) == source.spec.per_server:
            try:
                async with self._database.connection() as connection:
                    admission = await provider_states.fail(
                        connection, name, bucket=row, reason=reason, block=block
                    )
            except psycopg.Error as fault:
                # The lookup has its result already. Failing to share this record must not lose it.
                _log.warning("failure_not_noted", source=source.spec.name, error=type(fault).__name__)
                return
        else:
            admission = self._count(source.spec.name)
        self._remember(row, admission)

    async def record_response(self, source: RemoteSource) -> None:
        """Record that the server responded but rejected the query, so its breaker may close."""
        self.record_success(source)
        if not source.spec.shared:
            return
        try:
            async with self._database.connection() as connection:
                await provider_states.close(connection, source.spec.name, source.spec.bucket)
        except psycopg.Error as fault:
            _log.warning("answer_not_noted", source=source.spec.name, error=type(fault).__name__)

    def record_success(self, source: RemoteSource) -> None:
        """Record that the source answered. Postgres learns it when the answer is stored."""
        self._failures.pop(source.spec.name, None)
        self._failing.discard(source.spec.name)

    def is_failing(self, name: str) -> bool:
        """Return whether the last request from this process to the source `name` failed."""
        return name in self._failing

    def is_open(self, spec: RemoteSpec) -> bool:
        """Return whether this process may ask the source now."""
        until = max(self._refused.get(row, (0.0, ""))[0] for row in (spec.name, spec.bucket))
        return until <= time.monotonic()

    def _count(self, name: str) -> Admission:
        """Count a request in the breaker of a source whose breaker exists in this process alone."""
        until, reason = self._refused.get(name, (0.0, ""))
        if reason == "cooling_down" and (left := until - time.monotonic()) > 0:
            return Admission(
                admitted=False, reason="cooling_down", retry_after=left
            )  # the request began before the breaker opened
        self._failures[name] += 1
        over = self._failures[name] - FAILURES_TO_OPEN
        if over < 0:
            return Admission(admitted=True)
        seconds = min(MOST_OPEN_SECONDS, OPEN_SECONDS * 2 ** min(over, 10))
        return Admission(admitted=False, reason="cooling_down", retry_after=seconds)

    def _remember_full(self, caller: tuple[str, UUID | None], seconds: float) -> None:
        now = time.monotonic()
        if len(self._full) >= _MANY:
            self._full = {one: until for one, until in self._full.items() if until > now}
        self._full[caller] = now + seconds

    def _remember(self, name: str, admission: Admission) -> None:
        if admission.admitted:
            self._refused.pop(name, None)
        else:
            self._refused[name] = (time.monotonic() + admission.retry_after, admission.reason or "")
