"""Requests to network sources: equal queries share one request, and cached answers replace failed ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeVar

import logs
import metrics
from models.lookups.lookups import FAILURES
from outbound.client import Outbound
from outbound.errors import OutboundError
from providers.datasets.installed import Datasets
from providers.lookup.admission import AdmissionControl
from providers.lookup.answer_cache import AnswerCache, CachedAnswer, SourceQuery
from providers.lookup.result import NOT_ASKED, SourceResult
from providers.lookup.waiter import Waiter
from providers.sources.aggregate import Declared, Types, check_declared
from providers.sources.base import Context, Query, RemoteSource, SourceError
from settings import Settings

_log = logs.get(__name__)

# How long a lookup waits for a source whose last request failed. An unreachable source delays a lookup by no
# more than this until its breaker opens, and once more for the request that tries it again later.
_PATIENCE_SECONDS = 0.5

SomeAnswer = TypeVar("SomeAnswer")
_Target = tuple[str, str, str]
"""A source name, with the kind and text of its query."""


class SourceFetcher:
    """Sends the requests of this process to the network sources of all kinds."""

    def __init__(
        self,
        settings: Settings,
        admission: AdmissionControl,
        kept: AnswerCache,
        outbound: Outbound,
        datasets: Datasets,
        types: Mapping[str, Types],
    ) -> None:
        """Prepare; `types`: source name → the type of each of its fields."""
        self._settings = settings
        self._admission = admission
        self._kept = kept
        self._outbound = outbound
        self._datasets = datasets
        self._types = types
        chosen = settings.providers.items()
        self._disabled = frozenset(name for name, one in chosen if one.enabled is False)
        self._flights: dict[tuple[_Target, Waiter | None], asyncio.Task[SourceResult]] = {}
        self._requests: dict[_Target, asyncio.Task[SourceResult]] = {}

    async def close(self) -> None:
        """Cancel all requests that are in flight."""
        flights = [*self._flights.values(), *self._requests.values()]
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)

    async def ask(
        self,
        asked: Sequence[SourceQuery],
        entries: Mapping[str, CachedAnswer],
        *,
        max_age: float | None,
        deadline: float,
        waiter: Waiter | None = None,
        kept_only: bool = False,
    ) -> dict[str, SourceResult]:
        """Ask all sources at once that have no fresh cached answer; return source → outcome.

        Args:
            asked: the sources, each with its query.
            entries: their cached answers.
            max_age: seconds; no cached answer older than that is used, 0 for none at all.
            deadline: seconds after which a source that has not answered counts as timed out. Its answer is
                still received and stored afterwards.
            waiter: the caller, if it can wait for a source that is over its limit.
            kept_only: send no requests: sources without a cached answer are skipped.
        """
        started, now = time.perf_counter(), time.time()
        outcomes: dict[str, SourceResult] = {}
        flights: dict[str, asyncio.Task[SourceResult]] = {}
        for source, query in asked:
            name = source.spec.name
            entry = entries.get(name)
            if kept_only or (entry is not None and entry.fresh(now, max_age)):
                outcomes[name] = _use_cached(entry, now, max_age)
            else:
                flights[name] = self._join_flight(source, query, waiter)
        if flights:
            await _wait_for_flights(
                [flight for name, flight in flights.items() if not self._admission.is_failing(name)],
                deadline - (time.perf_counter() - started),
            )
            spent = time.perf_counter() - started
            await _wait_for_flights(flights.values(), min(deadline, _PATIENCE_SECONDS) - spent)
        for name, flight in flights.items():
            outcomes[name] = _landing(flight, entries.get(name), now, max_age, _ms(started))
        return outcomes

    def settle_without_request(
        self, source: RemoteSource, entry: CachedAnswer | None, waiter: Waiter | None = None
    ) -> SourceResult | None:
        """Return the outcome of a source that needs no request now, or None if it is to be asked.

        One that is known to be over its limit is not asked now.

        Args:
            source: the source.
            entry: its cached answer.
            waiter: the caller, if it can wait.
        """
        now = time.time()
        if entry is not None and entry.fresh(now, None):
            return _use_cached(entry, now, None)
        refusal = self._admission.find_refusal(source, waiter)
        if refusal is None:
            return None
        return _stood_in(_failure(refusal, time.perf_counter(), source), entry, now, None)

    def _join_flight(
        self, source: RemoteSource, query: Query, waiter: Waiter | None
    ) -> asyncio.Task[SourceResult]:
        """Join the request to the source that is in flight, or the caller's attempt to send one."""
        target = (source.spec.name, query.kind, query.text)
        flight = self._requests.get(target) or self._flights.get((target, waiter))
        if flight is None:
            flight = asyncio.create_task(self._fetch(source, query, waiter))
            self._flights[target, waiter] = flight
            flight.add_done_callback(lambda _: self._flights.pop((target, waiter)))
        return flight

    async def _fetch(self, source: RemoteSource, query: Query, waiter: Waiter | None) -> SourceResult:
        """Ask the source if this caller may, and store the answer. Never raises.

        A waiting caller is refused earlier than others, so a refusal concerns that caller alone, while a
        request is shared by all.
        """
        started = time.perf_counter()
        try:
            source = await self._locate(source, query)
            await self._admission.admit(source, waiter)
        except SourceError as error:
            return _failure(error, started, source)
        target = (source.spec.name, query.kind, query.text)
        request = self._requests.get(target)
        if request is None:
            request = asyncio.create_task(self._send_request(source, query))
            self._requests[target] = request
            request.add_done_callback(lambda _: self._requests.pop(target))
            request.add_done_callback(partial(_observe, source.spec.name))
        return await asyncio.shield(request)

    async def _locate(self, source: RemoteSource, query: Query) -> RemoteSource:
        """Find the server that this query is for, and return the source bound to that server.

        Raises:
            SourceError: there is no such server, or it cannot be determined now.
        """
        if source.server_of is None:
            return source
        refusal = self._admission.find_refusal(source, None)
        if refusal is not None:
            raise refusal
        try:
            server = await self._run(source, source.server_of, query)
        except SourceError as error:
            if error.status != "skipped":
                await self._admission.record_failure(source, error)
            raise
        return source.bind_server(server)

    async def _send_request(self, source: RemoteSource, query: Query) -> SourceResult:
        """Send the request, and store the answer of the source. Never raises."""
        started = time.perf_counter()
        try:
            fields, unsure, drifted, doubts = await self._answer(source, query)
        except SourceError as error:
            # A target that does not answer, a query that is not accepted and a source that has no data for it
            # are no reasons to stop asking the source.
            if error.status == "rejected":
                await self._admission.record_response(source)
            elif error.status != "skipped" and not source.spec.active:
                await self._admission.record_failure(source, error)
            return _failure(error, started, source)
        if drifted:
            _log.warning("source_drifted", source=source.spec.name, fields=sorted(drifted))
            error = SourceError("bad_response", "drifted")
            await self._admission.record_failure(source, error)
            return _failure(error, started, source)._replace(fields=fields)
        self._admission.record_success(source)
        if not doubts:  # an answer that failed in part is requested again the next time
            await self._kept.keep(source, query, fields, unsure)
        status = "ok" if fields or doubts else "empty"
        return SourceResult(
            status, fields, _ms(started), fetched_at=time.time(), unsure=unsure, doubts=doubts
        )

    async def _answer(self, source: RemoteSource, query: Query) -> Declared:
        """Return the declared fields of the source's answer.

        Raises:
            SourceError: for every failure, expected or not, since a source may fail in unknown ways.
        """
        name = source.spec.name
        raw = await self._run(source, source.fetch, query)
        try:
            return check_declared(source.spec, source.parse(raw), self._types.get(name))
        except SourceError:
            raise
        except Exception as error:
            # The answer has a shape the parser does not handle. It may hold personal data, so it is not
            # logged.
            _log.warning("source_unreadable", source=name, error=type(error).__name__)
            raise SourceError("bad_response", "unexpected_shape") from error

    async def _run(
        self, source: RemoteSource, act: Callable[[Query, Context], Awaitable[SomeAnswer]], query: Query
    ) -> SomeAnswer:
        """Run a function of the source that does I/O.

        Raises:
            SourceError: for every failure.
        """
        name = source.spec.name
        settings = self._settings.provider(name)
        context = Context(
            client=self._outbound.provider_client(name, guarded=source.spec.active),
            base_url=(settings.base_url or source.spec.base_url).rstrip("/"),
            key=source.spec.secret(self._settings),
            timeout=source.spec.timeout,
            allowed=self._settings.allow_private_networks,
            datasets=self._datasets,
            disabled=self._disabled,
            guarded=self._outbound.provider_client("referrals", guarded=True),
            enter=partial(self._admission.admit_server, source),
        )
        try:
            async with asyncio.timeout(source.spec.timeout):
                return await act(query, context)
        except TimeoutError:
            raise SourceError("timeout", "timeout") from None
        except OutboundError as error:
            raise _source_error(error) from error
        except SourceError:
            raise
        except Exception as error:
            _log.exception("source_fetch_broken", source=name)
            raise SourceError("error", "internal_error") from error


def _observe(source: str, request: asyncio.Task[SourceResult]) -> None:
    """Count a request that has ended."""
    if not request.cancelled() and request.exception() is None:
        metrics.SOURCE.observe(request.result().ms / 1000, source, request.result().status)


async def _wait_for_flights(flights: Collection[asyncio.Task[SourceResult]], seconds: float) -> None:
    if any(not flight.done() for flight in flights):
        await asyncio.wait(flights, timeout=max(0.0, seconds))


def _landing(
    flight: asyncio.Task[SourceResult],
    entry: CachedAnswer | None,
    now: float,
    max_age: float | None,
    waited: int,
) -> SourceResult:
    """Return the result of the request; if it failed or is late, the cached answer."""
    outcome = flight.result() if flight.done() else SourceResult("timeout", ms=waited, detail="deadline")
    return _stood_in(outcome, entry, now, max_age)


def _stood_in(
    outcome: SourceResult, entry: CachedAnswer | None, now: float, max_age: float | None
) -> SourceResult:
    """Return the outcome, or the cached answer in place of a failure."""
    if outcome.status in FAILURES and not outcome.fields and entry and entry.usable(now, max_age):
        return SourceResult(
            "cached", entry.fields, outcome.ms, True, outcome.retry_after, outcome.detail, entry.fetched_at,
            failure=outcome.status, server=outcome.server,
        )  # fmt: skip
    return outcome


def _use_cached(entry: CachedAnswer | None, now: float, max_age: float | None) -> SourceResult:
    if entry is None or not entry.usable(now, max_age):
        return SourceResult("skipped", detail=NOT_ASKED)
    stale = now >= entry.expires_at
    return SourceResult("cached", entry.fields, stale=stale, fetched_at=entry.fetched_at, unsure=entry.unsure)


def _source_error(error: OutboundError) -> SourceError:
    """Return the source error for a failed request."""
    if error.code == "timeout":
        return SourceError("timeout", error.code)
    if error.code in ("too_large", "too_many_redirects", "bad_response"):
        return SourceError("bad_response", error.code)
    return SourceError("error", error.code)


def _failure(error: SourceError, started: float, source: RemoteSource) -> SourceResult:
    server = source.spec.server or None
    return SourceResult(
        error.status, ms=_ms(started), retry_after=error.retry_after, detail=error.detail, server=server
    )


def _ms(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)
