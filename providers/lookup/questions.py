"""The question of a lookup: a query, and how it is looked up."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from providers.lookup.answer_cache import SourceQuery
from providers.lookup.composition import WHOLE_ANSWER, Selection
from providers.lookup.waiter import Waiter
from providers.sources.base import Query, RemoteSource
from providers.sources.kind import Kind

_DEADLINE_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class LookupOptions:
    """The options of a lookup: the way a query is looked up, and the delivered part of its answer.

    Attributes:
        selection: the part of the answer that is wanted; sources that fill none of its fields are not asked.
        max_age: seconds; no cached answer older than that is used, 0 for none at all.
        deadline: seconds for everything.
        waiter: the caller, if it comes back when sources are over their limits; None if it cannot wait.
    """

    selection: Selection = WHOLE_ANSWER
    max_age: float | None = None
    deadline: float = _DEADLINE_SECONDS
    waiter: Waiter | None = None


DEFAULTS = LookupOptions()


@dataclass(frozen=True)
class Question:
    """A query with its options. `kept_only`: send no requests."""

    kind: Kind
    query: Query
    options: LookupOptions
    kept_only: bool = False

    @property
    def place(self) -> Hashable:
        """A key that is equal for all questions with the same answer."""
        wanted = self.options.selection
        fields = None if wanted.fields is None else frozenset(wanted.fields)
        return self.kind.name, self.query.words, fields, wanted.offset, wanted.limit

    def with_deadline(self, seconds: float) -> Question:
        """Return the question with another deadline."""
        return replace(self, options=replace(self.options, deadline=seconds))

    def list_queries(self, sources: Sequence[RemoteSource]) -> list[SourceQuery]:
        """Return the sources, each with the query in the form of its own kind."""
        return [(source, replace(source.asks(self.query), kind=source.spec.kind)) for source in sources]
