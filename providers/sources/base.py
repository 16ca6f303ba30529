"""The declaration of a source: a spec, a `fetch` that only does I/O, and a pure `parse`.

A source answers with fields: dotted paths of its kind's answer, such as `asn.name`. Three cases are kept
apart. An unknown field is left out or None, and never False, "" or 0. An answer without any field means that
the source knows nothing about the query. A failure is a `SourceError` whose status names its sort.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Any, Literal
from zlib import crc32

import httpx
import orjson

from models.lookups.cached_answers import AnswerKey
from models.lookups.lookups import Commercial, Status
from outbound.addresses import without_credentials
from outbound.guard import Networks
from outbound.response import retry_after
from providers.datasets.installed import Datasets
from settings import Rate, Settings

Fields = dict[str, Any]
Rule = Literal["first", "company", "any_true", "union", "union_by_name", "union_by_url", "max"]
"""The rule by which the values of several sources become one:

the first in the order of precedence, the first name of a company (`Cloudflare` and `Cloudflare, Inc.` are
equal), true if any is true, all of their items, all distinct names among their items (`Last.fm` and `LastFM`
are equal), all distinct pages among the `url`s of their items, or the greatest.
"""


@dataclass(frozen=True)
class Unsure:
    """The value that `parse` returns for a field that it could not find out completely.

    Attributes:
        value: the part that is known, if any.
        why: how the rest failed, as a stable snake_case word; the lookup is then partial. Empty if nothing
            failed but the value cannot be known.
        said: who reports which value, where the services that it asked contradict each other.
    """

    value: Any = None
    why: str = ""
    said: tuple[tuple[str, Any], ...] = ()


class SourceError(Exception):
    """A source that did not answer.

    Attributes:
        status: how it failed, or `skipped` if it was not asked.
        detail: why, as a stable snake_case word; never a secret, never the query.
        retry_after: seconds after which a retry makes sense, if the source reported that.
    """

    def __init__(self, status: Status, detail: str, retry_after: float | None = None) -> None:
        super().__init__(f"{status}: {detail}")
        self.status: Status = status
        self.detail = detail
        self.retry_after = retry_after


@dataclass(frozen=True)
class Query:
    """A normalised query.

    Attributes:
        kind: the kind of lookup.
        text: the normalised form, the same for all ways to write it. Caching and billing use it as their key.
        value: the same, parsed, in the type that the kind's sources take.
        written: the text in its original case, where `text` lacks that.
    """

    kind: str
    text: str
    value: Any = None
    written: str = ""

    @property
    def words(self) -> str:
        """The text that is searched for, and that the answer repeats."""
        return self.written or self.text


@dataclass(frozen=True)
class Evidence:
    """A page that documents how a source is asked and what it answers.

    Attributes:
        url: of the page, the specification or the recorded answer.
        read: the day on which it was read.
        second_hand: whether it is not the vendor's own, such as another author's client.
    """

    url: str
    read: date
    second_hand: bool = False


@dataclass(frozen=True, kw_only=True)
class Spec:
    """The declaration of a source of any sort.

    Attributes:
        name: one word, the common name.
        kind: the kind of lookup that it serves.
        fields: all fields that it can fill.
        licence: the licence of its data.
        commercial: whether its terms allow commercial use; `unknown` where they do not mention it.
        terms: the page with its terms; None where there are none, or each server has its own.
        bulk: whether its terms allow many queries in bulk.
        attribution: the attribution that it asks for, with a link.
        evidence: the page that documents its answers; every registered source has it.
        enabled: whether it is enabled by default.
        dataset: the installed data that it reads, if any.
        exclusive: whether no other source is asked when it knows the query. It then comes first in its kind.
        proves_absence: whether its empty answer means that there is nothing. False for a source that holds
            another sort of data than the rest, such as infected computers among lists of breaches.
        suffices: whether an answer of this source alone is a result. False for one that only helps to judge.
        credited: field → the source that owns the data, where this one only passes it on.
        parser_version: raise it when the same answer or data yields other fields, or other forms of a value.
            Cached answers of the old version are then not used, and a monitor starts the source anew.
    """

    name: str
    kind: str
    fields: frozenset[str]
    licence: str
    attribution: str
    commercial: Commercial = "unknown"
    terms: str | None = None
    bulk: bool = True
    evidence: Evidence | None = None
    enabled: bool = True
    dataset: str | None = None
    exclusive: bool = False
    proves_absence: bool = True
    suffices: bool = True
    credited: Mapping[str, str] = field(default_factory=dict[str, str])
    parser_version: int = 1

    @cached_property
    def edition(self) -> int:
        """A positive number that changes with the parser and with the fields to fill."""
        return crc32(f"{self.parser_version} {sorted(self.fields)}".encode()) & 0x7FFFFFFF


@dataclass(frozen=True, kw_only=True)
class RemoteSpec(Spec):
    """The further declaration of a source that is asked over the network.

    Attributes:
        timeout: seconds for one request.
        ttl: seconds for which an answer counts as fresh.
        negative_ttl: the same for an empty answer.
        stale_ttl: seconds for which an answer may replace a failed one.
        rates: how often all processes together may ask it: the vendor's general limit, or that of the
            smallest plan. All rates apply at once.
        base_url: its default address.
        key: whether it needs a key of the operator's.
        shared: whether answers, bucket and breaker are stored in Postgres for all processes. False for a
            source that is as cheap to ask as Postgres: its state stays in the process.
        active: whether asking contacts the target itself, or sites that its data names. Its client is always
            guarded.
        personal: whether asking sends personal data to a third party.
        own: whether it is disabled until the operator configures the address of their own instance.
        account: the source whose key it uses when it has none of its own, for a key that serves several
            kinds. All sources of one account name it, also the one of this name: they share the limits of
            `rates`.
        per_server: whether it asks one server per registry, each with windows and a breaker of its own.
        server: the server that a query is for, of such a source.
        server_rates: server → how often it may be asked, where that is published and differs from `rates`.
    """

    timeout: float
    ttl: float
    negative_ttl: float
    stale_ttl: float = 7 * 86400
    rates: tuple[Rate, ...] = ()
    base_url: str = ""
    key: Literal["none", "optional", "required"] = "none"
    shared: bool = True
    active: bool = False
    personal: bool = False
    own: bool = False
    account: str | None = None
    per_server: bool = False
    server: str = ""
    server_rates: Mapping[str, tuple[Rate, ...]] = field(default_factory=dict[str, tuple[Rate, ...]])

    @property
    def bucket(self) -> str:
        """The name of the bucket that limits its requests."""
        if self.server:
            return f"{self.name}/{self.server}"
        return f"@{self.account}" if self.account else self.name

    def get_rates(self, settings: Settings) -> tuple[Rate, ...]:
        """Return how often it may be asked: the operator's rates for it or its account, else `rates`."""
        chosen = settings.provider(self.account or self.name).rate
        return self.server_rates.get(self.server, self.rates) if chosen is None else chosen

    def secret(self, settings: Settings) -> str | None:
        """Return the operator's key for it, or None."""
        keys = (settings.provider(name).key for name in (self.name, self.account) if name)
        return next((key.get_secret_value() for key in keys if key), None)

    def address(self, settings: Settings) -> str | None:
        """Return the operator's address for it, without credentials; None for the vendor's own."""
        chosen = settings.provider(self.name).base_url
        return None if chosen is None else ",".join(map(without_credentials, chosen.split(",")))

    def edition_at(self, address: str | None) -> int:
        """Return the edition of answers from this address. Answers from different addresses are not mixed."""
        return self.edition if address is None else crc32(f"{self.edition} {address}".encode()) & 0x7FFFFFFF


async def _enter_freely(server: str) -> None:
    """Apply no limit."""


@dataclass(frozen=True)
class Context:
    """The tools and settings that a `fetch` works with.

    Attributes:
        client: the source's own HTTP client; it raises `OutboundError`s.
        base_url: without a trailing slash; the operator's if set.
        key: the operator's key, if there is one.
        timeout: seconds for the whole `fetch`, which is then cancelled.
        allowed: networks that the operator has opened, for a source that makes its own connections.
        datasets: the data on this machine.
        disabled: the sources that the operator has disabled.
        guarded: a client that is always guarded, for addresses that come from an answer.
        enter: acquires permission to ask a further server of the source, by its name.
    """

    client: httpx.AsyncClient
    base_url: str
    key: str | None
    timeout: float
    allowed: Networks = ()
    datasets: Datasets | None = None
    disabled: frozenset[str] = frozenset()
    guarded: httpx.AsyncClient | None = None
    enter: Callable[[str], Awaitable[None]] = _enter_freely


@dataclass(frozen=True)
class LocalSource:
    """A source on this machine: no cache, no limits, no waiting.

    `find` returns the fields, empty if the data has nothing on the query. It raises `SourceError` with
    `skipped` if it cannot answer, because there is no data or the query is of another sort.
    """

    spec: Spec
    find: Callable[[Query, Datasets], Fields]
    places: Mapping[str, str] = field(default_factory=dict[str, str])

    @cached_property
    def fields(self) -> frozenset[str]:
        """The fields that it can fill, by their names in the kind that uses it."""
        return frozenset(self.places.get(path, path) for path in self.spec.fields)


def any_query(query: Query) -> bool:
    """Accept every query."""
    return True


@dataclass(frozen=True)
class RemoteSource:
    """A source that is asked over the network.

    `fetch` returns the raw answer, or raises `SourceError` or `OutboundError`. `parse` reads that answer:
    pure, no clock, no network. It raises `SourceError` for an invalid answer, and returns `Unsure` for fields
    of which only a part arrived. The source is skipped for queries that it does not `take`. `asks` maps a
    query to the one that is sent and used as the cache key, such as the domain of an address.

    A source with one server per registry determines the server of a query by `server_of`, so that each server
    has its own limits. `server_of` raises `SourceError`, with `skipped` if there is no server.
    """

    spec: RemoteSpec
    fetch: Callable[[Query, Context], Awaitable[Any]]
    parse: Callable[[Any], Fields]
    takes: Callable[[Query], bool] = any_query
    places: Mapping[str, str] = field(default_factory=dict[str, str])
    asks: Callable[[Query], Query] = lambda query: query
    server_of: Callable[[Query, Context], Awaitable[str]] | None = None

    def bind_server(self, server: str) -> RemoteSource:
        """Return the source bound to one of its servers."""
        return replace(self, spec=replace(self.spec, server=server))

    @cached_property
    def fields(self) -> frozenset[str]:
        """The fields that it can fill, by their names in the kind that uses it."""
        return frozenset(self.places.get(path, path) for path in self.spec.fields)

    def key(self, query_hash: bytes, address: str | None) -> AnswerKey:
        """Return the key of a cached answer from this address; None is the vendor's own."""
        return AnswerKey(self.spec.name, self.spec.edition_at(address), query_hash)


Source = LocalSource | RemoteSource
"""A source of either sort.

`places` is for a source that a kind other than its own uses: its field → that kind's field. It is asked as in
its own kind, and shares the cached answers of that kind.
"""


REJECTIONS = frozenset({400, 404, 422, 451})
"""Statuses with which a service rejects this very query."""


def json_answer(response: httpx.Response, *, empty: frozenset[int] = frozenset()) -> Any:
    """Return the JSON of a response, or None for the statuses by which this source reports no data.

    Raises:
        SourceError: for any other answer that is not a success with JSON in it.
    """
    status = response.status_code
    if status in empty:
        return None
    if status in (401, 403):
        raise SourceError("auth_failed", f"http_{status}")
    if status == 429:
        raise SourceError("rate_limited", "http_429", retry_after(response.headers))
    if status in REJECTIONS:
        raise SourceError("rejected", f"http_{status}")
    if status >= 500 or status in (408, 425):
        raise SourceError("error", f"http_{status}", retry_after(response.headers))
    if not 200 <= status < 300:
        raise SourceError("bad_response", f"http_{status}")
    try:
        answer = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        raise SourceError("bad_response", "not_json") from None
    if answer is None:  # an empty answer must be explicit
        raise SourceError("bad_response", "null")
    return answer
