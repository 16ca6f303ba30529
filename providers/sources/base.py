"""What a source is: a spec, a `fetch` that does I/O and nothing else, and a pure `parse`.

A source answers with fields: dotted paths of its kind's answer, such as `asn.name`. Three things are kept
apart. A field it does not know is left out or None, and never False, "" or 0. Knowing nothing about the
query is an answer: no fields. Failing is a `SourceError` whose status says how.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cached_property, lru_cache
from typing import Any, Literal
from zlib import crc32

import httpx
import orjson

from models.lookups.cached_answers import Key
from models.lookups.lookups import Commercial, LookupAnswer, Status
from outbound.addresses import without_credentials
from outbound.guard import Networks
from outbound.response import retry_after
from providers.datasets.installed import Datasets
from providers.sources.verdicts import Sign
from settings import Rate, Settings

Fields = dict[str, Any]
Rule = Literal["first", "company", "any_true", "union", "union_by_name", "union_by_url", "max"]
"""How the values of several sources become one: the first in the order of precedence, the first name of a
company (`Cloudflare` and `Cloudflare, Inc.` are one), true if any says so, all of their items, all of the
things that their items name (`Last.fm` and `LastFM` are one), all of the pages that the `url`s of their items
lead to, or the greatest."""


@dataclass(frozen=True)
class Unsure:
    """What `parse` says of a field that it could not find out, or not all of it.

    Attributes:
        value: what it has, if anything.
        why: how that part failed, as a stable snake_case word; the lookup is partial then. Empty where
            nothing has failed, but nobody could know.
        said: who says what, where those whom it asked contradict each other.
    """

    value: Any = None
    why: str = ""
    said: tuple[tuple[str, Any], ...] = ()


class SourceError(Exception):
    """A source that gave no answer.

    Attributes:
        status: how it failed, or `skipped` if it was not asked.
        detail: why, as a stable snake_case word; never a secret, never the query.
        retry_after: seconds after which asking again makes sense, if the source said so.
    """

    def __init__(self, status: Status, detail: str, retry_after: float | None = None) -> None:
        super().__init__(f"{status}: {detail}")
        self.status: Status = status
        self.detail = detail
        self.retry_after = retry_after


@dataclass(frozen=True)
class Query:
    """What is looked up.

    Attributes:
        kind: the kind of lookup.
        text: the normalised form, the same for all ways to write it: what is kept and paid goes by it.
        value: the same, parsed, in the type that the kind's sources take.
        written: the text with its own case, where `text` lacks that.
    """

    kind: str
    text: str
    value: Any = None
    written: str = ""

    @property
    def words(self) -> str:
        """What is searched for, and repeated by the answer."""
        return self.written or self.text


@dataclass(frozen=True)
class Evidence:
    """Where one can read how a source is asked and what it answers.

    Attributes:
        url: of the page, the specification or the recorded answer.
        read: the day on which it was read.
        second_hand: it is not the vendor's own, as a client that someone else has written.
    """

    url: str
    read: date
    second_hand: bool = False


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What every source says of itself.

    Attributes:
        name: one word, as people say it.
        kind: the kind of lookup that it serves.
        fields: all that it can fill.
        licence: under which its data may be used.
        commercial: whether its terms let a business use it; `unknown` where they do not say so.
        terms: the page with its terms; None where nobody sets any, or each server has its own.
        bulk: whether its terms let many queries be looked up.
        attribution: how it wants to be named, with a link.
        evidence: where one can read how it answers; every registered source has it.
        enabled: whether it is on unless the operator says otherwise.
        dataset: the installed data that it reads, if any.
        exclusive: when it knows the query, no other source is asked. It comes first in its kind.
        proves_absence: its empty answer means that there is nothing. Not so for a source that holds another
            sort of data than the rest, as a list of infected computers among lists of breaches.
        suffices: that it alone was heard makes an answer. Not so for what only helps to judge.
        credited: field → the source whose data it is, for what this one only passes on.
        parser_version: raise it when the same answer or data gives other fields, or other forms of a value.
            Then kept answers of the old one are not used, and for a monitor the source begins anew.
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
        """A positive number that is another one with another parser, or with other fields to fill."""
        return crc32(f"{self.parser_version} {sorted(self.fields)}".encode()) & 0x7FFFFFFF


@dataclass(frozen=True, kw_only=True)
class RemoteSpec(Spec):
    """What a source that is asked over the network says of itself besides.

    Attributes:
        timeout: seconds for one request.
        ttl: seconds for which an answer counts as fresh.
        negative_ttl: the same for an empty answer.
        stale_ttl: seconds for which an answer may stand in when the source fails.
        rates: how often it may be asked, over all processes: what the vendor gives to all, or the smallest
            plan. All bind.
        base_url: where it is, unless the operator says otherwise.
        key: whether it needs a key of the operator's.
        shared: keep answers, bucket and breaker in Postgres, for all processes. Not for what is as cheap to
            ask as Postgres: that keeps them in the process.
        active: asking touches the target itself, or sites that its data names. Its client is always guarded.
        personal: asking sends personal data to a third party.
        own: it is off until the operator says where theirs is.
        account: the source whose key it uses when it has none of its own: one key may be for several kinds.
            All sources of one account name it, the one of this name too: they share what `rates` allow.
        per_server: it asks a server for each registry, which has windows and a breaker of its own.
        server: the one of these that a query is for.
        server_rates: server → how often it may be asked, where that is published and not `rates`.
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
        """The name of the bucket that its requests are taken from."""
        if self.server:
            return f"{self.name}/{self.server}"
        return f"@{self.account}" if self.account else self.name

    def allowed(self, settings: Settings) -> tuple[Rate, ...]:
        """How often it may be asked: what the operator says of it, or of its account, else `rates`."""
        chosen = settings.provider(self.account or self.name).rate
        return self.server_rates.get(self.server, self.rates) if chosen is None else chosen

    def secret(self, settings: Settings) -> str | None:
        """The operator's key for it, if there is one."""
        keys = (settings.provider(name).key for name in (self.name, self.account) if name)
        return next((key.get_secret_value() for key in keys if key), None)

    def address(self, settings: Settings) -> str | None:
        """Where the operator has it asked, without credentials; None for the vendor's own place."""
        chosen = settings.provider(self.name).base_url
        return None if chosen is None else ",".join(map(without_credentials, chosen.split(",")))

    def edition_at(self, address: str | None) -> int:
        """The edition of answers that come from there: those of another place are not taken for them."""
        return self.edition if address is None else crc32(f"{self.edition} {address}".encode()) & 0x7FFFFFFF


async def _enter_freely(server: str) -> None:
    """Limit nothing."""


@dataclass(frozen=True)
class Context:
    """What `fetch` works with.

    Attributes:
        client: the source's own HTTP client; its errors are `OutboundError`s.
        base_url: without a trailing slash; the operator's if set.
        key: the operator's key, if there is one.
        timeout: seconds for all that `fetch` does; it is cancelled then.
        allowed: networks that the operator has opened, for a source that makes its own connections.
        datasets: the data on this machine.
        disabled: the sources that the operator has switched off.
        guarded: a client that is guarded whatever the operator has set, for what an answer leads to.
        enter: takes leave to ask a further server of the source, by its name.
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
    `skipped` when it has no say: there is no data, or the query is not of its sort.
    """

    spec: Spec
    find: Callable[[Query, Datasets], Fields]
    places: Mapping[str, str] = field(default_factory=dict[str, str])

    @cached_property
    def fields(self) -> frozenset[str]:
        """What it can fill, by the names of the kind that it stands in."""
        return frozenset(self.places.get(path, path) for path in self.spec.fields)


def any_query(query: Query) -> bool:
    """Take every query."""
    return True


@dataclass(frozen=True)
class RemoteSource:
    """A source that is asked over the network.

    `fetch` returns what came back, or raises `SourceError` or `OutboundError`. `parse` reads that: pure,
    no clock, no network; it raises `SourceError` for what is not an answer, and is `Unsure` of fields where
    only a part of one came. For queries that it does not `take` the source is skipped. What it `asks`
    instead of a query, its answers are kept by: as the domain for every address there.

    A source with a server for each registry says by `server_of` which one a query is for, so that each is
    asked at its own pace. That raises `SourceError`, with `skipped` where there is none.
    """

    spec: RemoteSpec
    fetch: Callable[[Query, Context], Awaitable[Any]]
    parse: Callable[[Any], Fields]
    takes: Callable[[Query], bool] = any_query
    places: Mapping[str, str] = field(default_factory=dict[str, str])
    asks: Callable[[Query], Query] = lambda query: query
    server_of: Callable[[Query, Context], Awaitable[str]] | None = None

    def at(self, server: str) -> RemoteSource:
        """The source as it is asked at one of its servers."""
        return replace(self, spec=replace(self.spec, server=server))

    @cached_property
    def fields(self) -> frozenset[str]:
        """What it can fill, by the names of the kind that it stands in."""
        return frozenset(self.places.get(path, path) for path in self.spec.fields)

    def key(self, query_hash: bytes, address: str | None) -> Key:
        """Under which an answer from this address is kept; None is the vendor's own."""
        return Key(self.spec.name, self.spec.edition_at(address), query_hash)


Source = LocalSource | RemoteSource
"""`places` is for a source that stands in a kind other than its own: its field → that kind's field. It is
asked as in its own kind, whose kept answers it shares."""


Derived = Mapping[str, tuple[Any, str | None]]
"""Field → its value and the field that it follows from, whose sources it has; None for one of its own."""


def no_more(fields: Mapping[str, Any], moment: datetime) -> Derived:
    """Derive nothing."""
    return {}


def no_comparison(told: Mapping[str, Fields]) -> Fields:
    """Find nothing by comparing."""
    return {}


def free(fields: Mapping[str, Any]) -> int:
    """Cost nothing."""
    return 0


def one_credit(fields: Mapping[str, Any]) -> int:
    """Cost one credit, whatever the answer."""
    return 1


def all_alike(told: Mapping[str, Fields]) -> tuple[Mapping[str, Fields], Mapping[str, Fields]]:
    """Take all sources to speak of the same."""
    return told, {}


def whole(fields: Fields, offset: int, limit: int | None) -> Fields:
    """Cut nothing."""
    return fields


@dataclass(frozen=True)
class Resolution:
    """What it is, exactly, that a query means.

    Attributes:
        query: with which the sources that take it are asked.
        fields: source → what of its first answer stays.
    """

    query: Query
    fields: Mapping[str, Fields]


Apart = Callable[[Mapping[str, Fields]], tuple[Mapping[str, Fields], Mapping[str, Fields]]]
Resolve = Callable[[Query, Mapping[str, Fields], bool], Resolution]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of lookup.

    Attributes:
        name: as in the paths of the API.
        sources: in the order of precedence.
        answer: the shape of the answer.
        rules: how values of several sources become one, for the fields where it is not `first`.
        example: a good query.
        normalise: the text as the caller gave it, and the JSON pointer of the field that it came in →
            query; raises `models.errors.Invalid`.
        echo: where the answer repeats the query.
        count: where the answer tells how many sources answered, if it does. A source that asks several
            services fills it itself.
        together: groups of fields that come from one source together, as the parts of a person's name.
        apart: source → its fields, in the order of precedence → the same without what some of them say
            of somebody else, and that.
        asked: field → source → what it stands for in that list of those who were asked.
        derive: the merged fields and the present moment → further fields.
        price: the most credits that one answer can cost.
        cost: the merged fields → the credits for what was delivered, between 0 and `price`.
        origins: derived field → the fields that it follows from, so that who wants the one has the others
            asked for.
        none: field → its value when all sources that could have filled another field have answered, and
            none did, and that other field.
        counted: fields of `none` that count: they say what those who answered have found, 0 included, also
            while another source that could know is silent.
        scored: members of the items of lists whose value is computed here, and is no source's.
        main: fields of which any is enough where nobody says which ones are wanted: a job then waits for no
            source that is over its limit. Empty: for all.
        message: the merged fields, and the names of the sources that have not answered → the field `message`.
        signs: by which a target is judged, for a kind with a `verdict`.
        priced: fields by which the price goes whichever are wanted: they are always asked for.
        absent: fields that the answer does not have when nobody fills them.
        resolve: for a kind whose sources are asked in two rounds: the query, source → what it answered
            in the first, and whether all of them did → the query of the second round.
        cut: the merged fields, an offset and a limit (None: as the kind has it) → the part to deliver.
        compare: what each source says → further fields, which follow from how much they differ.
        block: how many results, counted by offset, are charged once together; 0 where that is not so.
    """

    name: str
    sources: tuple[Source, ...]
    answer: type[LookupAnswer]
    example: str
    normalise: Callable[[str, str], Query]
    echo: str
    count: str | None = None
    rules: Mapping[str, Rule] = field(default_factory=dict[str, Rule])
    together: tuple[frozenset[str], ...] = ()
    apart: Apart = all_alike
    asked: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    derive: Callable[[Mapping[str, Any], datetime], Derived] = no_more
    price: int = 0
    cost: Callable[[Mapping[str, Any]], int] = free
    origins: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    none: Mapping[str, tuple[Any, str]] = field(default_factory=dict[str, tuple[Any, str]])
    counted: frozenset[str] = frozenset()
    scored: frozenset[str] = frozenset()
    main: frozenset[str] = frozenset()
    message: Callable[[Mapping[str, Any], Sequence[str]], str] | None = None
    signs: tuple[Sign, ...] = ()
    priced: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    resolve: Resolve | None = None
    cut: Callable[[Fields, int, int | None], Fields] = whole
    compare: Callable[[Mapping[str, Fields]], Fields] = no_comparison
    block: int = 0

    @cached_property
    def judged(self) -> frozenset[str]:
        """The fields that its signs read."""
        return frozenset(path for sign in self.signs for path in sign.fields)

    def needed(self, fields: Collection[str]) -> frozenset[str]:
        """The fields and blocks that sources are asked for where only `fields` are wanted.

        These are also what they follow from, what is filled together with them, and what the price goes by,
        so that each is what it is in the whole answer.
        """
        return self._needed(frozenset(fields))

    @cached_property
    def _needed(self) -> Callable[[frozenset[str]], frozenset[str]]:
        """What `needed` gives, remembered: a monitor asks for the same fields with every target."""
        return lru_cache(256)(self._find_needed)

    def _find_needed(self, fields: frozenset[str]) -> frozenset[str]:
        wanted = {*fields, *self.priced}
        if any(path.partition(".")[0] == "verdict" for path in fields):
            wanted |= self.judged
        while True:
            more = {origin for path in wanted for origin in self.origins.get(path, ())}
            for name in wanted | more:
                for group in self.together:
                    if any(path == name or path.startswith(f"{name}.") for path in group):
                        more |= group
            if more <= wanted:
                return frozenset(wanted)
            wanted |= more


REJECTIONS = frozenset({400, 404, 422, 451})
"""The statuses with which a service says that it does not take this very query."""


def json_answer(response: httpx.Response, *, empty: frozenset[int] = frozenset()) -> Any:
    """The JSON of a response, or None for the statuses with which this source says that it knows nothing.

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
    if answer is None:  # to be empty, an answer must say so
        raise SourceError("bad_response", "null")
    return answer
