"""What a lookup gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LookupResult:
    """What all sources together know about a query.

    Attributes:
        kind: the kind of lookup.
        query: in its normalised form.
        data: the fields of the kind's answer, nested; null where nobody knows.
        credits: what it costs: by what was delivered.
        cached: every source that had to be asked over the network was answered from what is kept.
        partial: some source failed.
        providers: for each source what became of it, as `models.lookups.ProviderReport`.
        sources: path → the sources that its value is from.
        conflicts: path → source → value, where sources differ.
        block: which block of results this is, for a kind that charges by blocks.
    """

    kind: str
    query: str
    data: dict[str, Any]
    credits: int
    cached: bool
    partial: bool
    providers: list[dict[str, Any]]
    sources: dict[str, list[str]]
    conflicts: dict[str, dict[str, Any]]
    block: int = 0

    def answer(self) -> dict[str, Any]:
        """The answer as the API gives it."""
        return {
            **self.data,
            "credits": self.credits,
            "cached": self.cached,
            "partial": self.partial,
            "providers": self.providers,
            "sources": self.sources,
            "conflicts": self.conflicts,
        }
