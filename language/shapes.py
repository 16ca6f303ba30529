"""What is known of values before there are any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Shape(NamedTuple):
    """What is known of a value. One of which neither fields nor items are known may be anything.

    Attributes:
        nullable: whether it may be null.
        fields: those of an object that has no others.
        items: what is known of each element of an array.
    """

    nullable: bool = True
    fields: Mapping[str, Shape] | None = None
    items: Shape | None = None

    def paths(self) -> Iterator[tuple[str, ...]]:
        """The fields of an object and of the objects in it, each by the names that lead there."""
        for name, inner in (self.fields or {}).items():
            yield (name,)
            for path in inner.paths():
                yield (name, *path)


ANYTHING = Shape()
