"""References: the parts of its scope that an expression reads, and what its author may have meant."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from language.expressions.parser import Node

WHOLE_SCOPE = "@"
IN_QUOTES = "a name in double quotes is a field; a string is in single quotes."
# Functions whose argument at this index is usually a plain string.
_SEARCHES = {"contains": 1, "starts_with": 1, "ends_with": 1, "join": 0}


class Reference(NamedTuple):
    """Something that an expression reads from the root of the scope.

    Attributes:
        root: the name at the root, for `lookup.location.city` it is `lookup`; WHOLE_SCOPE (`@`) where the
            expression looks at the root as a whole, as `keys(@)` does.
        path: the names after it, up to the first thing that is not a plain name: `("location", "city")`.
        quoted: whether the root was written in double quotes.
        compared: whether it is nothing but a name in double quotes, in a place where a string is usual.
        position: 0-based offset of the root in the text.
    """

    root: str
    path: tuple[str, ...]
    quoted: bool
    compared: bool
    position: int


class Reading(NamedTuple):
    """The references of an expression, and its doubtful places.

    Attributes:
        references: in the order they appear, each once.
        doubts: names in double quotes that are compared where they are no references: within a filter.
    """

    references: tuple[Reference, ...]
    doubts: tuple[tuple[int, str], ...]


def plain_path(root: Node) -> tuple[str, ...] | None:
    """Return the names of an expression of names and dots alone; None for any other."""
    nodes = root["children"] if root["type"] == "subexpression" else [root]
    if any(node["type"] != "field" for node in nodes):
        return None
    return tuple(node["value"] for node in nodes)


def read_references(root: Node) -> Reading:
    """Look an expression through."""
    compared = dict(_find_comparisons(root))
    walk = _Walk(compared.keys())
    walk.record(walk.place(root, ()), root)
    unique = {(found.root, found.path, found.compared): found for found in reversed(walk.found)}
    references = sorted(unique.values(), key=lambda found: (found.position, found.path))
    elsewhere = compared.keys() - {found.position for found in walk.found if found.compared}
    doubts = [(position, IN_QUOTES) for position in sorted(elsewhere) if compared[position]]
    return Reading(tuple(references), tuple(doubts))


# Where a node's result stands in the scope: the fields from the root to it, () for the root itself.
_Place = tuple[Node, ...]


class _Walk:
    def __init__(self, compared: Collection[int]) -> None:
        self.found: list[Reference] = []
        self._compared = compared

    def record(self, place: _Place | None, node: Node) -> None:
        if place is None:
            return
        names = tuple(field["value"] for field in place)
        if names:
            at = place[0]["position"]
            compared = len(names) == 1 and at in self._compared
            self.found.append(Reference(names[0], names[1:], "quoted" in place[0], compared, at))
        else:
            self.found.append(Reference(WHOLE_SCOPE, (), False, False, node["position"]))

    def place(self, node: Node, here: _Place | None) -> _Place | None:
        """Return the place of a node's result, given its input's, if it has one; record what it reads."""
        match node["type"]:
            case "field":
                return None if here is None else (*here, node)
            case "current" | "identity":
                return here
            case "root":
                return ()
            case "subexpression" | "pipe":
                return self._walk_call(node, here)
            case "projection" | "value_projection" | "filter_projection":
                self.record(self.place(node["children"][0], here), node["children"][0])
                for child in node["children"][1:]:
                    # Each element has no place of its own, but `$` in there has.
                    self.record(self.place(child, None), child)
            case "index" | "slice":
                self.record(here, node)
            case _:
                inner = None if node["type"] == "expref" else here
                for child in node["children"]:
                    self.record(self.place(child, inner), child)
        return None

    def _walk_call(self, node: Node, here: _Place | None) -> _Place | None:
        for child in node["children"]:
            before, here = here, self.place(child, here)
            if before and not (here and here[: len(before)] == before):
                self.record(before, child)
        return here


def _is_quoted_name(node: Node) -> bool:
    return node["type"] == "field" and "quoted" in node


def _find_comparisons(node: Node) -> Iterator[tuple[int, bool]]:
    """Find comparisons of names in double quotes, and whether the other side is no literal."""
    if node["type"] == "comparator":
        left, right = node["children"]
        for one, other in ((left, right), (right, left)):
            if _is_quoted_name(one):
                yield one["position"], other["type"] != "literal"
    elif node["type"] == "function_expression":
        index = _SEARCHES.get(node["value"])
        if index is not None and index < len(node["children"]) and _is_quoted_name(node["children"][index]):
            yield node["children"][index]["position"], True
    for child in node["children"]:
        yield from _find_comparisons(child)
