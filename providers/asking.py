"""Asking sources over the network: what is kept first, and no query on its way twice at once."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import orjson
import psycopg

import logs
from database import Database
from models import lookups
from models.lookups import FAILURES, Status
from outbound.client import Outbound
from outbound.errors import OutboundError
from providers.aggregate import declared
from providers.base import Context, Fields, Query, RemoteSource, SourceError, source_error
from providers.gates import Gates
from providers.installed import Datasets
from sealing import Keyring, UnsealError
from settings import Settings

_log = logs.get(__name__)
NOT_ASKED = "not_asked"
"""Why a source was skipped of which nothing is kept, where nobody was to be asked."""

# Of an answer in this process: source, kind and query.
_Place = tuple[str, str, str]
# What this process keeps itself. Answers of shared sources are looked up again after a minute, so that
# what another process deletes is soon gone here too.
_KEPT_HERE = 4096
_KEPT_HERE_SECONDS = 60.0
# How long a lookup waits for a source whose last request failed. Where there is no way to it, that is all
# that it costs until its breaker opens, and for the one request that tries it again after that.
_PATIENCE_SECONDS = 0.5


@dataclass(frozen=True)
class Outcome:
    """What became of one source: its status, and its fields if it has any. `ms`: how long that took."""

    status: Status
    fields: Fields = field(default_factory=Fields)
    ms: int = 0
    stale: bool = False
    retry_after: float | None = None
    detail: str | None = None


@dataclass(frozen=True)
class _Entry:
    """A kept answer; times are Unix seconds. `here_until`: until when this process may trust its copy."""

    fields: Fields
    fetched_at: float
    expires_at: float
    stale_until: float
    here_until: float

    def usable(self, now: float, max_age: float | None) -> bool:
        return now < self.stale_until and (max_age is None or now - self.fetched_at <= max_age)


class Asker:
    """Asks the remote sources of all kinds for this process."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        keyring: Keyring,
        outbound: Outbound,
        datasets: Datasets,
    ) -> None:
        self._settings = settings
        self._datasets = datasets
        self._database = database
        self._keyring = keyring
        self._outbound = outbound
        self.gates = Gates(database)
        self._entries: OrderedDict[_Place, _Entry] = OrderedDict()
        self._flights: dict[_Place, asyncio.Task[Outcome]] = {}

    async def close(self) -> None:
        """Give up what is on its way."""
        flights = list(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)

    async def ask(
        self,
        sources: Sequence[RemoteSource],
        query: Query,
        *,
        max_age: float | None,
        deadline: float,
        kept_only: bool = False,
    ) -> list[Outcome]:
        """Ask all `sources` at once; returns their outcomes in the same order.

        Args:
            sources: which.
            query: for what.
            max_age: seconds; no kept answer older than that is used, 0 for none at all.
            deadline: seconds after which a source that has not answered counts as timed out. What is on its
                way then still arrives, and is kept.
            kept_only: send nothing: those of which no answer is kept are skipped.
        """
        started = time.perf_counter()
        kept = {s.spec.name: self._entries.get(_place(s.spec.name, query)) for s in sources}
        now = time.time()
        unknown = [s for s in sources if s.spec.shared and not _trusted(kept[s.spec.name], now)]
        if unknown and max_age != 0:
            kept |= await self._read(unknown, query)
        if kept_only:
            return [_kept(kept[source.spec.name], now, max_age) for source in sources]
        flights = {
            source.spec.name: self._flight(source, query)
            for source in sources
            if not _fresh(kept[source.spec.name], now, max_age)
        }
        await _landed(
            [flight for name, flight in flights.items() if not self.gates.failing(name)],
            deadline - (time.perf_counter() - started),
        )
        spent = time.perf_counter() - started
        await _landed(flights.values(), min(deadline, _PATIENCE_SECONDS) - spent)
        waited = _ms(started)
        return [
            _outcome(flights.get(name), kept[name], now, max_age, waited)
            for name in (source.spec.name for source in sources)
        ]

    async def _read(self, sources: Sequence[RemoteSource], query: Query) -> dict[str, _Entry | None]:
        """What Postgres keeps; nothing while it is away, for the sources may still answer."""
        digest = lookups.query_hash(self._keyring, query.kind, query.text)
        try:
            async with self._database.connection() as connection:
                rows = await lookups.read(connection, [source.key(digest) for source in sources])
        except psycopg.Error as error:
            _log.warning("kept_answers_unreadable", error=type(error).__name__)
            return {}
        found: dict[str, _Entry | None] = {}
        for row in rows:
            try:
                fields: Fields = orjson.loads(self._keyring.open("lookups", row.sealed, row.source))
            except UnsealError:
                continue  # sealed with a key that is gone: as good as not kept
            found[row.source] = self._remember(
                _place(row.source, query),
                fields,
                row.fetched_at,
                row.expires_at,
                row.stale_until,
                shared=True,
            )
        return found

    def _remember(
        self,
        key: _Place,
        fields: Fields,
        fetched_at: float,
        expires_at: float,
        stale_until: float,
        *,
        shared: bool,
    ) -> _Entry:
        here_until = time.time() + _KEPT_HERE_SECONDS if shared else stale_until
        entry = _Entry(fields, fetched_at, expires_at, stale_until, here_until)
        self._entries[key] = entry
        self._entries.move_to_end(key)
        while len(self._entries) > _KEPT_HERE:
            self._entries.popitem(last=False)
        return entry

    def _flight(self, source: RemoteSource, query: Query) -> asyncio.Task[Outcome]:
        key = _place(source.spec.name, query)
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = asyncio.create_task(self._fetch(source, query))
            flight.add_done_callback(lambda _: self._flights.pop(key))
        return flight

    async def _fetch(self, source: RemoteSource, query: Query) -> Outcome:
        """Ask the source, and keep what it says. Never raises."""
        started = time.perf_counter()
        try:
            await self.gates.admit(source)
        except SourceError as error:
            return _failure(error, started)
        try:
            fields, drifted = await self._answer(source, query)
        except SourceError as error:
            # A target that does not answer, a query that is not taken, a source that has no say: none of that
            # is a reason to leave the source alone.
            if error.status not in ("skipped", "rejected") and not source.spec.active:
                await self.gates.failed(source, error)
            return _failure(error, started)
        if drifted:
            _log.warning("source_drifted", source=source.spec.name, fields=sorted(drifted))
            error = SourceError("bad_response", "undeclared_fields")
            await self.gates.failed(source, error)
            return replace(_failure(error, started), fields=fields)
        self.gates.succeeded(source)
        await self._keep(source, query, fields)
        return Outcome("ok" if fields else "empty", fields, _ms(started))

    async def _answer(self, source: RemoteSource, query: Query) -> tuple[Fields, list[str]]:
        """The source's fields, and the names of those that it should not have.

        Raises:
            SourceError: whatever went wrong: a source is not trusted to fail in a known way.
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
        )
        try:
            async with asyncio.timeout(source.spec.timeout):
                raw = await source.fetch(query, context)
        except TimeoutError:
            raise SourceError("timeout", "timeout") from None
        except OutboundError as error:
            raise source_error(error) from error
        except SourceError:
            raise
        except Exception as error:
            _log.exception("source_fetch_broken", source=name)
            raise SourceError("error", "internal_error") from error
        try:
            return declared(source.spec, source.parse(raw))
        except SourceError:
            raise
        except Exception as error:
            # Not what the parser was written for. The answer may hold personal data, so it is not logged.
            _log.warning("source_unreadable", source=name, error=type(error).__name__)
            raise SourceError("bad_response", "unexpected_shape") from error

    async def _keep(self, source: RemoteSource, query: Query, fields: Fields) -> None:
        spec, now = source.spec, time.time()
        ttl = spec.ttl if fields else spec.negative_ttl
        stale = max(ttl, spec.stale_ttl)
        self._remember(_place(spec.name, query), fields, now, now + ttl, now + stale, shared=spec.shared)
        if not spec.shared:
            return
        try:
            digest = lookups.query_hash(self._keyring, query.kind, query.text)
            sealed = self._keyring.seal("lookups", orjson.dumps(fields), spec.name)
            async with self._database.connection() as connection:
                await lookups.keep(connection, source.key(digest), sealed, ttl=ttl, stale=stale)
        except psycopg.Error as fault:
            _log.warning("answer_not_kept", source=spec.name, error=type(fault).__name__)


def _place(source: str, query: Query) -> _Place:
    return (source, query.kind, query.text)


async def _landed(flights: Collection[asyncio.Task[Outcome]], seconds: float) -> None:
    if any(not flight.done() for flight in flights):
        await asyncio.wait(flights, timeout=max(0.0, seconds))


def _trusted(entry: _Entry | None, now: float) -> bool:
    return entry is not None and now < min(entry.here_until, entry.expires_at)


def _fresh(entry: _Entry | None, now: float, max_age: float | None) -> bool:
    return entry is not None and now < entry.expires_at and entry.usable(now, max_age)


def _outcome(
    flight: asyncio.Task[Outcome] | None,
    entry: _Entry | None,
    now: float,
    max_age: float | None,
    waited: int,
) -> Outcome:
    """What the flight brought; if it failed, what is kept; without a flight, what is kept and fresh."""
    if flight is None:
        assert entry is not None
        return Outcome("cached", entry.fields, waited)
    outcome = flight.result() if flight.done() else Outcome("timeout", ms=waited, detail="deadline")
    if outcome.status in FAILURES and not outcome.fields and entry and entry.usable(now, max_age):
        return Outcome("cached", entry.fields, outcome.ms, stale=True, detail=outcome.detail)
    return outcome


def _kept(entry: _Entry | None, now: float, max_age: float | None) -> Outcome:
    if entry is None or not entry.usable(now, max_age):
        return Outcome("skipped", detail=NOT_ASKED)
    return Outcome("cached", entry.fields, stale=now >= entry.expires_at)


def _failure(error: SourceError, started: float) -> Outcome:
    return Outcome(error.status, ms=_ms(started), retry_after=error.retry_after, detail=error.detail)


def _ms(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)
