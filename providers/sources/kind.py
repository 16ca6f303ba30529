"""The declaration of a kind of lookup: its sources, its answer, and how one comes from the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any

from models.lookups.lookups import LookupAnswer
from providers.sources.base import Fields, Query, Rule, Source
from providers.sources.verdicts import Sign

Derived = Mapping[str, tuple[Any, str | None]]
"""Field → its value, and the field that it follows from and whose sources it has; None for a field of its
own.
"""


def no_more(fields: Mapping[str, Any], moment: datetime) -> Derived:
    """Derive nothing."""
    return {}


def no_comparison(told: Mapping[str, Fields]) -> Fields:
    """Return no fields."""
    return {}


def free(fields: Mapping[str, Any]) -> int:
    """Return 0, the price of a free answer."""
    return 0


def one_credit(fields: Mapping[str, Any]) -> int:
    """Return 1, whatever the answer contains."""
    return 1


def all_alike(told: Mapping[str, Fields]) -> tuple[Mapping[str, Fields], Mapping[str, Fields]]:
    """Return all fields as fields of the same subject."""
    return told, {}


def whole(fields: Fields, offset: int, limit: int | None) -> Fields:
    """Return the fields uncut."""
    return fields


@dataclass(frozen=True)
class Resolution:
    """The exact meaning of a query.

    Attributes:
        query: the query for the sources that accept it.
        fields: source → the part of its first answer that stays valid.
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
        answer: the model of the answer.
        rules: how values of several sources become one, for the fields where it is not `first`.
        example: a good query.
        normalise: the caller's text, and the JSON pointer of the field that it came in → query; raises
            `models.errors.Invalid`.
        echo: the field of the answer that repeats the query.
        count: the field that counts the sources that answered, if there is one. A source that asks several
            services fills it itself.
        together: groups of fields that come from one source together, such as the parts of a person's name.
        apart: source → its fields, in the order of precedence → the same without values about another
            subject, and those values.
        asked: field → source → its name in that list of the sources asked.
        derive: the merged fields and the present moment → further fields.
        price: the most credits that one answer can cost.
        cost: the merged fields → the credits for what was delivered, between 0 and `price`.
        origins: derived field → the fields that it follows from, which are requested along with it.
        none: field → its value when all sources that could fill a second field have answered and none did,
            and that second field.
        counted: fields of `none` that count: they report what the sources that answered found, 0 included,
            even while another source is silent.
        scored: members of list items whose value is computed here and comes from no source.
        main: fields of which any one is enough where the caller names none: a job then waits for no source
            that is over its limit. Empty for all fields.
        message: the merged fields, and the names of the sources that did not answer → the field `message`.
        signs: the signs by which a target is judged, for a kind with a `verdict`.
        priced: fields that determine the price, which are always requested.
        absent: fields that the answer omits when no source fills them.
        resolve: for a kind whose sources are asked in two rounds: the query, source → its answer in the first
            round, and whether all answered → the query of the second round.
        cut: the merged fields, an offset and a limit (None for the kind's default) → the part to deliver.
        compare: source → its fields → further fields, which follow from how the sources differ.
        block: how many results, counted by offset, are charged together; 0 for a kind without blocks.
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

    def without_price(self) -> Kind:
        """Return the same kind, whose answers cost nothing."""
        return replace(self, price=0, cost=free)

    @cached_property
    def judged_fields(self) -> frozenset[str]:
        """The fields that its signs read."""
        return frozenset(path for sign in self.signs for path in sign.fields)

    def find_needed(self, fields: Collection[str]) -> frozenset[str]:
        """Return the fields and blocks to request from sources when only `fields` are wanted.

        These include the fields that the wanted ones follow from, those that are filled together with them,
        and those that determine the price, so that each value is the same as in the whole answer.
        """
        return self._cached_find_needed(frozenset(fields))

    @cached_property
    def _cached_find_needed(self) -> Callable[[frozenset[str]], frozenset[str]]:
        """The cached form of `needed`: a monitor asks for the same fields with every target."""
        return lru_cache(256)(self._find_needed)

    def _find_needed(self, fields: frozenset[str]) -> frozenset[str]:
        wanted = {*fields, *self.priced}
        if any(path.partition(".")[0] == "verdict" for path in fields):
            wanted |= self.judged_fields
        while True:
            more = {origin for path in wanted for origin in self.origins.get(path, ())}
            for name in wanted | more:
                for group in self.together:
                    if any(path == name or path.startswith(f"{name}.") for path in group):
                        more |= group
            if more <= wanted:
                return frozenset(wanted)
            wanted |= more
