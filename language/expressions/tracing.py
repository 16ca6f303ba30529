"""Tracing of expressions over values of known shape: absent fields, and null taken for a value.

Places are paths from the root of the scope, with `[*]` for each element of an array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from language.expressions.library import FUNCTIONS
from language.expressions.parser import Node
from language.shapes import ANYTHING, Shape

Place = tuple[str, ...]
Known = frozenset[Place]

Kind = Literal["unknown_field", "of_array", "of_object", "unequal", "order"]

EACH = "[*]"
_ORDERS = frozenset({"lt", "lte", "gt", "gte"})
# Functions that give an array like theirs, or an element of it, and those that can give null.
_LIKE_ARRAY = frozenset({"sort_by", "sort", "reverse"})
_LIKE_ELEMENT = frozenset({"max_by", "min_by"})
_MAY_GIVE_NULL = frozenset(
    {"avg", "max", "min", "not_null", "to_number", "find_first", "find_last", "parse_json"}
)
_PATHS = frozenset({"field", "current", "identity", "root", "index"})


class Doubt(NamedTuple):
    """Something in an expression that its author hardly meant.

    Attributes:
        kind: `unknown_field`: the object has no such field; `of_array`: a field of an array, or `of_object`:
            an element of an object, which both are always null; `unequal`: a comparison is true where the
            value is null, or `order`: is null itself.
        position: 0-based offset in the text.
        place: what it is about, with the unknown field.
        shape: of what should have the field or the element.
    """

    kind: Kind
    position: int
    place: Place
    shape: Shape


class _Value(NamedTuple):
    """A value: what is known of it, and where it stands in the scope, if it is a part of that."""

    shape: Shape
    place: Place | None = None


class _Use(NamedTuple):
    """The use of a value: `negated` by a `!` around it, or as the `result` of the whole."""

    negated: bool = False
    result: bool = False


_PLAIN = _Use()
_UNKNOWN = _Value(ANYTHING)
_NONE_KNOWN: Known = frozenset()


def trace(root: Node, scope: Mapping[str, Shape], *, is_output: bool) -> tuple[Shape, list[Doubt]]:
    """Follow an expression through a scope.

    Args:
        root: of the expression.
        scope: the shape of each name that can be read; of another nothing is known, and it never is null.
        is_output: whether its value is kept as it is, and not only asked whether it is true.

    Returns:
        The shape of its value, and the doubts in the order of the text, each once.
    """
    tracer = _Tracer(scope)
    value = tracer.value(root, _Value(Shape(False), ()), _NONE_KNOWN, _Use(result=is_output))
    unique = {(doubt.position, doubt.kind): doubt for doubt in tracer.doubts}
    return value.shape, sorted(unique.values(), key=lambda doubt: doubt.position)


class _Tracer:
    def __init__(self, scope: Mapping[str, Shape]) -> None:
        self.doubts: list[Doubt] = []
        self._scope = scope

    def value(self, node: Node, here: _Value, known: Known, use: _Use = _PLAIN) -> _Value:
        """Return the shape of a node's result; `known` are places that are not null when it is evaluated."""
        match node["type"]:
            case "literal":
                return _Value(Shape(node["value"] is None))
            case "field":
                return self._field(node, here)
            case "current" | "identity":
                return here
            case "root":
                return _Value(Shape(False), ())
            case "subexpression" | "pipe":
                *before, last = node["children"]
                for child in before:
                    here = self.value(child, here, known)
                return self.value(last, here, known, use if node["type"] == "pipe" else _PLAIN)
            case "index":
                return self._element(node, here, f"[{node['value']}]")
            case "slice":
                return _Value(here.shape)
            case "projection" | "filter_projection":
                return self._projection(node, here, known)
            case "value_projection":
                self.value(node["children"][0], here, known)
                self.value(node["children"][1], _UNKNOWN, known)
                return _UNKNOWN
            case "flatten":
                return self._flatten(self.value(node["children"][0], here, known))
            case "comparator":
                return self._comparator(node, here, known, use)
            case "and_expression" | "or_expression" | "not_expression":
                return self._logic(node, here, known, use)
            case "multi_select_list" | "multi_select_dict":
                for child in node["children"]:
                    self.value(child, here, known, _Use(result=use.result))
                return _Value(Shape(here.shape.nullable))
            case "key_val_pair":
                return self.value(node["children"][0], here, known, use)
            case "function_expression":
                return self._function(node, here, known)
            case "expref":
                return _UNKNOWN

    def _field(self, node: Node, here: _Value) -> _Value:
        name = node["value"]
        if here.place == ():
            return _Value(self._scope[name], (name,)) if name in self._scope else _Value(Shape(False))
        place = None if here.place is None else (*here.place, name)
        if here.shape.items is not None:
            self._doubt("of_array", node, place, here.shape)
        elif here.shape.fields is not None:
            inner = here.shape.fields.get(name)
            if inner is not None:
                return _Value(inner._replace(nullable=inner.nullable or here.shape.nullable), place)
            self._doubt("unknown_field", node, place, here.shape)
        return _Value(ANYTHING, place)

    def _element(self, node: Node, here: _Value, name: str) -> _Value:
        place = None if here.place is None else (*here.place, name)
        if here.shape.fields is not None:
            self._doubt("of_object", node, place, here.shape)
        return _Value((here.shape.items or ANYTHING)._replace(nullable=True), place)

    def _doubt(self, kind: Kind, node: Node, place: Place | None, shape: Shape) -> None:
        self.doubts.append(Doubt(kind, node["position"], place or (str(node.get("value")),), shape))

    def _projection(self, node: Node, here: _Value, known: Known) -> _Value:
        left = self.value(node["children"][0], here, known)
        each = self._element(node, left, EACH) if left.shape.items or left.shape.fields else _UNKNOWN
        # What is null itself is left out before anything is applied to it.
        each = each._replace(shape=each.shape._replace(nullable=left.shape.items is None))
        for condition in node["children"][2:]:
            self.value(condition, each, known)
            known |= self._find_known_places(condition, each, True)
        made = self.value(node["children"][1], each, known)
        return _Value(Shape(left.shape.nullable or left.shape.items is None, items=made.shape))

    def _flatten(self, inner: _Value) -> _Value:
        items = inner.shape.items
        if items is None:
            if inner.shape.fields is not None:
                return inner
            return _Value(ANYTHING)
        return inner._replace(shape=inner.shape._replace(items=items.items or items))

    def _comparator(self, node: Node, here: _Value, known: Known, use: _Use) -> _Value:
        sides = [self.value(child, here, known) for child in node["children"]]
        for one, other in ((0, 1), (1, 0)):
            side, against = sides[one], node["children"][other]
            if not side.place or not side.shape.nullable or side.place in known:
                continue
            literal = against["type"] == "literal" and against["value"] is not None
            if literal and node["value"] == ("eq" if use.negated else "ne"):
                self._doubt("unequal", node["children"][one], side.place, side.shape)
            elif literal and node["value"] in _ORDERS and (use.negated or use.result):
                self._doubt(
                    "unequal" if use.negated else "order", node["children"][one], side.place, side.shape
                )
        return _Value(Shape(node["value"] in _ORDERS))

    def _logic(self, node: Node, here: _Value, known: Known, use: _Use) -> _Value:
        if node["type"] == "not_expression":
            self.value(node["children"][0], here, known, _Use(negated=not use.negated))
            return _Value(Shape(False))
        # One operand counts only where those beside it are true, or for `||` false.
        settled = [
            self._find_known_places(child, here, node["type"] == "and_expression")
            for child in node["children"]
        ]
        counts = Counter(place for places in settled for place in places)
        everywhere = known.union(counts)
        nullable: list[bool] = []
        for child, own in zip(node["children"], settled, strict=True):
            beside = everywhere - {place for place in own if counts[place] == 1 and place not in known}
            nullable.append(self.value(child, here, beside, use).shape.nullable)
        return _Value(Shape(nullable[-1] if node["type"] == "or_expression" else any(nullable)))

    def _function(self, node: Node, here: _Value, known: Known) -> _Value:
        name = node["value"]
        arguments = [self.value(child, here, known) for child in node["children"]]
        array = next((value for value in arguments if value.shape.items is not None), _UNKNOWN)
        each = _UNKNOWN if array.shape.items is None else self._element(node, array, EACH)
        inner = [
            self.value(child["children"][0], each, known)
            for child in node["children"]
            if child["type"] == "expref"
        ]
        if name == "map":
            return _Value(Shape(False, items=inner[0].shape if inner else ANYTHING))
        if name in _LIKE_ARRAY:
            return _Value(array.shape._replace(nullable=False))
        if name in _LIKE_ELEMENT:
            return _Value(each.shape)
        return _Value(Shape(name in _MAY_GIVE_NULL))

    def _find_known_places(self, node: Node, here: _Value, truth: bool, negated: bool = False) -> Known:
        """Return the places that are not null, or were considered, where a node has this truth."""
        if node["type"] in ("and_expression", "or_expression"):
            sets = [self._find_known_places(child, here, truth, negated) for child in node["children"]]
            both = (node["type"] == "and_expression") is truth
            return _NONE_KNOWN.union(*sets) if both else sets[0].intersection(*sets[1:])
        if node["type"] == "not_expression":
            return self._find_known_places(node["children"][0], here, not truth, not negated)
        if node["type"] == "comparator":
            return self._settled_by_comparison(node, here, truth, negated)
        if node["type"] == "function_expression":
            function = FUNCTIONS[node["value"]]
            # Null in place of a string or an array is an error, so that nothing comes of it.
            strict = (i for i in range(len(node["children"])) if function.parameter(i)["types"])
            return self._places((node["children"][index] for index in strict), here)
        return self._places([node], here) if truth else _NONE_KNOWN

    def _settled_by_comparison(self, node: Node, here: _Value, truth: bool, negated: bool) -> Known:
        doubtful = "eq" if negated else "ne"
        found = _NONE_KNOWN
        for one, other in (node["children"], node["children"][::-1]):
            if one["type"] == "function_expression" and one["value"] == "type":
                found |= self._places(one["children"], here)
            if node["value"] in _ORDERS:
                found |= self._places([one], here) if truth and not negated else _NONE_KNOWN
            elif other["type"] == "literal" and (other["value"] is None or node["value"] != doubtful):
                # Either it equals what is not null, or it is unequal to null.
                equal = (node["value"] == "eq") is truth
                found |= self._places([one], here) if equal is (other["value"] is not None) else _NONE_KNOWN
        return found

    def _places(self, nodes: Iterable[Node], here: _Value) -> Known:
        quiet = _Tracer(self._scope)
        values = [quiet.value(node, here, _NONE_KNOWN) for node in nodes if _is_path(node)]
        return frozenset(value.place for value in values if value.place)


def _is_path(node: Node) -> bool:
    """Return whether a node is a part of the scope that needs no second look."""
    if node["type"] in ("subexpression", "pipe"):
        return all(map(_is_path, node["children"]))
    return node["type"] in _PATHS
