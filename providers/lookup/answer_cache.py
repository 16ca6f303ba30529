"""Cached answers of sources: a cache in this process in front of the shared one in Postgres.

Reads of concurrent lookups are combined into one statement. The same statement checks whether a query is a
suppressed person, about whom nothing is looked up.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson
import psycopg

import logs
from database import Database
from micro_batcher import MicroBatcher
from models.accounts import suppressions
from models.lookups import cached_answers
from models.lookups.cached_answers import AnswerKey, StoredAnswer
from providers.sources.base import Fields, Query, RemoteSource
from sealing import Keyring, UnsealError
from settings import Settings

_log = logs.get(__name__)

SourceQuery = tuple[RemoteSource, Query]
"""A source, and the query in the form of the source's own kind."""

# The key of an answer in this process: source, kind and query.
_Place = tuple[str, str, str]
# The cache of this process. Answers of shared sources are read again after a minute, so that a deletion by
# another process soon takes effect here too.
_KEPT_HERE = 4096
# Size as JSON or sealed. Larger answers are read again each time.
_LARGEST_HERE_BYTES = 32 * 1024
_KEPT_HERE_SECONDS = 60.0
# The key under which the names of the unsure fields are stored beside the fields.
_UNSURE = "?"
_SURE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class CachedAnswer:
    """A cached answer.

    Times are Unix seconds; `here_until` is the time until which this process trusts its copy.
    """

    fields: Fields
    fetched_at: float
    expires_at: float
    stale_until: float
    here_until: float
    unsure: frozenset[str] = _SURE

    def usable(self, now: float, max_age: float | None) -> bool:
        """Return whether the answer may be used: it is not older than `max_age`, and if empty still fresh."""
        until = self.stale_until if self.fields else self.expires_at
        return now < until and (max_age is None or now - self.fetched_at <= max_age)

    def fresh(self, now: float, max_age: float | None) -> bool:
        """Return whether the answer may be used instead of asking the source."""
        return now < self.expires_at and self.usable(now, max_age)


@dataclass(frozen=True)
class CachedAnswers:
    """The cached answers by source name, and whether the query is a suppressed person."""

    entries: dict[str, CachedAnswer] = field(default_factory=dict[str, CachedAnswer])
    suppressed: bool = False


@dataclass(frozen=True)
class _Wanted:
    keys: list[AnswerKey]
    person: list[bytes]


@dataclass(frozen=True)
class _Read:
    kept: list[StoredAnswer]
    suppressed: bool


@dataclass
class _Look:
    """The result of a search in this process: the answers found, and those to be read from Postgres."""

    moment: float
    entries: dict[str, CachedAnswer] = field(default_factory=dict[str, CachedAnswer])
    unknown: dict[AnswerKey, SourceQuery] = field(default_factory=dict[AnswerKey, SourceQuery])
    wanted: _Wanted | None = None


class AnswerCache:
    """The cached answers, as seen by this process."""

    def __init__(self, database: Database, keyring: Keyring, settings: Settings) -> None:
        self._database = database
        self._keyring = keyring
        self._settings = settings
        self._addresses: dict[str, str | None] = {}
        self._entries: OrderedDict[_Place, CachedAnswer] = OrderedDict()
        self._reads: MicroBatcher[_Wanted, _Read] = MicroBatcher(self._read_together, in_flight=2)

    async def find(self, asked: Sequence[SourceQuery], person: str | None) -> CachedAnswers:
        """Return the cached answers, fresh or stale.

        Args:
            asked: the sources, each with its query.
            person: the e-mail address or phone number, if the query is one.

        Raises:
            psycopg.Error: if a person is asked about and the suppression check fails. For other queries
                nothing is found while the database is away, because the sources may still answer.
        """
        look = self._look(asked, person)
        if look.wanted is None:
            return CachedAnswers(look.entries)
        try:
            read = await self._reads.submit(look.wanted)
        except psycopg.Error as error:
            if person is not None:
                raise
            _log.warning("kept_answers_unreadable", error=type(error).__name__)
            return CachedAnswers(look.entries)
        return self._combine_answers(look, read)

    async def find_many(
        self, asked: Sequence[tuple[Sequence[SourceQuery], str | None]]
    ) -> list[CachedAnswers]:
        """Return the cached answers for many queries with one statement, each as `find` does.

        Raises:
            psycopg.Error: the database is away.
        """
        looks = [self._look(sources, person) for sources, person in asked]
        wanted = [look.wanted for look in looks if look.wanted is not None]
        reads = iter(await self._read_all(wanted) if wanted else ())
        return [
            CachedAnswers(look.entries) if look.wanted is None else self._combine_answers(look, next(reads))
            for look in looks
        ]

    def _look(self, asked: Sequence[SourceQuery], person: str | None) -> _Look:
        """Search the answers that this process holds."""
        look = _Look(time.time())
        for source, query in asked:
            entry = self._entries.get(_place(source, query))
            if entry is not None:
                look.entries[source.spec.name] = entry
            if source.spec.shared and (
                entry is None or look.moment >= min(entry.here_until, entry.expires_at)
            ):
                look.unknown[self._key(source, query)] = (source, query)
        if look.unknown or person is not None:
            hashes = suppressions.identifier_hashes(self._keyring, person) if person else []
            look.wanted = _Wanted(list(look.unknown), hashes)
        return look

    def _combine_answers(self, look: _Look, read: _Read) -> CachedAnswers:
        """Combine the answers held here with those read from Postgres."""
        for source, query in look.unknown.values():
            # The copy in this process was deleted in Postgres, unless the read returned it.
            look.entries.pop(source.spec.name, None)
            self._entries.pop(_place(source, query), None)
        for kept in read.kept:
            source, query = look.unknown[kept.key]
            try:
                fields: Fields = orjson.loads(self._keyring.open("lookups", kept.sealed, kept.key.source))
            except UnsealError:
                continue  # sealed with a key that no longer exists: treat it as not cached
            here_until = look.moment + _KEPT_HERE_SECONDS
            unsure = frozenset(fields.pop(_UNSURE, ()))
            entry = CachedAnswer(
                fields, kept.fetched_at, kept.expires_at, kept.stale_until, here_until, unsure
            )
            look.entries[source.spec.name] = entry
            self._remember(_place(source, query), entry, len(kept.sealed))
        return CachedAnswers(look.entries, read.suppressed)

    async def keep(
        self, source: RemoteSource, query: Query, fields: Fields, unsure: frozenset[str] = _SURE
    ) -> None:
        """Store an answer that just arrived, and record that its source works."""
        spec, now = source.spec, time.time()
        ttl = spec.ttl if fields else spec.negative_ttl
        stale = max(ttl, spec.stale_ttl) if fields else ttl
        here_until = now + _KEPT_HERE_SECONDS if spec.shared else now + stale
        text = orjson.dumps({**fields, _UNSURE: sorted(unsure)} if unsure else fields)
        entry = CachedAnswer(fields, now, now + ttl, now + stale, here_until, unsure)
        self._remember(_place(source, query), entry, len(text))
        if not spec.shared:
            return
        key = self._key(source, query)
        sealed = self._keyring.seal("lookups", text, spec.name)
        try:
            async with self._database.connection() as connection:
                await cached_answers.keep(connection, key, sealed, bucket=spec.bucket, ttl=ttl, stale=stale)
        except psycopg.Error as fault:
            _log.warning("answer_not_kept", source=spec.name, error=type(fault).__name__)

    async def _read_together(self, group: list[_Wanted]) -> list[_Read | Exception]:
        return [*await self._read_all(group)]

    async def _read_all(self, group: Sequence[_Wanted]) -> list[_Read]:
        keys = list({key: None for wanted in group for key in wanted.keys})
        persons = [digest for wanted in group for digest in wanted.person]
        async with self._database.connection() as connection:
            rows, suppressed = await cached_answers.load_answers(connection, keys, persons)
        kept = {row.key: row for row in rows}
        return [
            _Read(
                [kept[key] for key in wanted.keys if key in kept],
                not suppressed.isdisjoint(wanted.person),
            )
            for wanted in group
        ]

    def _key(self, source: RemoteSource, query: Query) -> AnswerKey:
        name = source.spec.name
        if name not in self._addresses:
            self._addresses[name] = source.spec.address(self._settings)
        digest = cached_answers.query_hash(self._keyring, query.kind, query.text)
        return source.key(digest, self._addresses[name])

    def _remember(self, place: _Place, entry: CachedAnswer, size: int) -> None:
        self._entries.pop(place, None)
        if size > _LARGEST_HERE_BYTES:
            return
        self._entries[place] = entry
        while len(self._entries) > _KEPT_HERE:
            self._entries.popitem(last=False)


def _place(source: RemoteSource, query: Query) -> _Place:
    return (source.spec.name, query.kind, query.text)
