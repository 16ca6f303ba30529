"""The known shapes of values before they exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Shape(NamedTuple):
    """The known shape of a value. Without known fields and items, the value may be anything.

    Attributes:
        nullable: whether it may be null.
        fields: the fields of an object that has no others.
        items: the shape of each element of an array.
    """

    nullable: bool = True
    fields: Mapping[str, Shape] | None = None
    items: Shape | None = None

    def paths(self) -> Iterator[tuple[str, ...]]:
        """Yield the fields of an object and of nested objects, each as a path of names."""
        for name, inner in (self.fields or {}).items():
            yield (name,)
            for path in inner.paths():
                yield (name, *path)


ANYTHING = Shape()
