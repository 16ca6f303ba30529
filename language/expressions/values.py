"""JSON values as expressions see them: their types, truth, equality and size, and the budget of their use."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeAlias

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"

# JSON as messages carry it ends at about 200 levels, of which they need some for themselves.
MAX_VALUE_DEPTH = 180
# What orjson reads and writes as an integer; beyond, it too makes a float.
MIN_INTEGER, MAX_INTEGER = -(2**63), 2**64 - 1
# What one evaluation may visit.
MAX_NODES = 100_000
# Cheap visits (an element of an array summed, copied or measured) that together make one node.
CHEAP_VISITS = 8
# Characters compared or measured, and characters produced, that make one node.
COMPARED_CHARACTERS = 1024
PRODUCED_CHARACTERS = 64

# Keys that may be named in messages.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class ExpressionError(Exception):
    """An expression or template that cannot be compiled or evaluated.

    Attributes:
        code: stable snake_case name of what is wrong; docs/expressions.md lists them.
        reason: for people. Never contains a value of the data.
        position: 0-based offset in the text, in characters, where that is known.
        pointer: for a template, the JSON pointer to the string within the structure; else empty.
        key: for one of several expressions of a mapping, its name; else None.
    """

    def __init__(
        self,
        code: str,
        reason: str,
        position: int | None = None,
        pointer: str = "",
        *,
        key: str | None = None,
    ) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.position = position
        self.pointer = pointer
        self.key = key

    @property
    def message(self) -> str:
        """The reason behind the place: the key and the character, counted from 1, as far as known."""
        places = [] if self.key is None else [f"key {self.key}" if _NAME.fullmatch(self.key) else "a key"]
        if self.position is not None:
            places.append(describe_place(self.position))
        place = ", ".join(places)
        return f"{place[0].upper()}{place[1:]}: {self.reason}" if place else self.reason

    def add_key(self, key: str) -> ExpressionError:
        """Return the same error for one of several expressions of a mapping."""
        return ExpressionError(self.code, self.reason, self.position, self.pointer, key=key)


def describe_place(position: int) -> str:
    """Return the place of a character for people, who count from 1."""
    return f"at character {position + 1}"


class Budget:
    """The work that evaluations may do. One budget may be shared by many evaluations.

    It counts, and knows no clock, so that the same work always ends the same way. A node is an
    operator or function applied to one value, at most a few microseconds.

    Attributes:
        output_left: bytes of compact JSON in UTF-8 that results may still have, all together.
    """

    __slots__ = ("_nodes_left", "output_left")

    def __init__(self, nodes: int = MAX_NODES, output_bytes: int = 1_048_576) -> None:
        self._nodes_left = nodes
        self.output_left = output_bytes

    @property
    def nodes_left(self) -> int:
        """Nodes that may still be visited."""
        return max(0, self._nodes_left)

    @property
    def exhausted(self) -> bool:
        """True once the nodes are used up; then no further ones are granted."""
        return self._nodes_left < 0

    def spend(self, nodes: int) -> None:
        """Take nodes off the budget before the work is done.

        Raises:
            ExpressionError: `too_many_nodes`; the budget is exhausted from then on.
        """
        if nodes > self._nodes_left:
            self._nodes_left = -1
            raise ExpressionError("too_many_nodes", "The expression does too much work on this data.")
        self._nodes_left -= nodes

    @contextmanager
    def portion(self, nodes: int) -> Generator[None]:
        """Within the block only so many of the nodes are there: asking for more exhausts these alone."""
        aside = max(0, self._nodes_left - nodes)
        self._nodes_left -= aside
        try:
            yield
        finally:
            if aside:
                self._nodes_left = aside + self.nodes_left

    def produce(self, value: JSON, depth: int = 0) -> None:
        """Take a result, or a part of one that is so many levels down in it, off the budget.

        Raises:
            ExpressionError: `output_too_large`, `too_many_nodes`, `too_deep`, or `wrong_type` if not JSON.
        """
        self.output_left -= self.measure(value, depth)

    def measure(self, value: JSON, depth: int = 0) -> int:
        """Return the size of a value in bytes as compact JSON, if that much output is left.

        Shared parts count as often as they would be written, and are looked at once.

        Raises:
            ExpressionError: as `produce`.
        """
        if isinstance(value, (list, dict)):
            return _container_size(value, depth + 1, self, {})[0]
        size = _scalar_size(value, self)
        if size > self.output_left:
            raise output_too_large()
        return size

    def produce_array(self, length: int) -> None:
        """Take the brackets and commas of an array off the budget, whose elements are results themselves.

        Raises:
            ExpressionError: `output_too_large`.
        """
        size = max(2, length + 1)
        if size > self.output_left:
            raise output_too_large()
        self.output_left -= size


def output_too_large() -> ExpressionError:
    """Return the error of a result, or of a string on the way to it, that exceeds the budget."""
    return ExpressionError("output_too_large", "The expression makes more data than is allowed.")


def _container_size(
    value: list[JSON] | dict[str, JSON],
    depth: int,
    budget: Budget,
    known: dict[int, tuple[int, int]],
) -> tuple[int, int]:
    """Size and height of a container that is `depth` levels down in a result.

    `known` keeps those of containers by identity, so that a part shared a million times is walked once;
    all of them live as long as it does. For a small one of scalars that would cost more than it saves.
    """
    key = id(value)
    seen = known.get(key)
    if seen is not None and depth + seen[1] <= MAX_VALUE_DEPTH:
        return seen
    if depth >= MAX_VALUE_DEPTH:
        raise _nested_too_deep()
    limit = budget.output_left
    size, height = max(2, len(value) + 1), 1
    if size > limit:
        raise output_too_large()
    if isinstance(value, dict):
        charge_names(value, budget)
        size += len(value) + sum(map(_string_size, value))
        items = value.values()
    else:
        budget.spend(1 + len(value) // CHEAP_VISITS)
        items = value
    for item in items:
        if isinstance(item, (list, dict)):
            item_size, item_height = _container_size(item, depth + 1, budget, known)
            size += item_size
            if item_height >= height:
                height = item_height + 1
        else:
            size += _scalar_size(item, budget)
        if size > limit:
            raise output_too_large()
    if height > 1 or len(value) > CHEAP_VISITS:
        known[key] = size, height
    return size, height


def _nested_too_deep() -> ExpressionError:
    return ExpressionError("too_deep", f"A value is nested deeper than {MAX_VALUE_DEPTH} levels.")


def _string_size(value: str) -> int:
    text = _ENCODER.encode(value)
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _scalar_size(value: JSON, budget: Budget) -> int:
    """Return the size in bytes of a value that is neither array nor object; charge for a long string."""
    if isinstance(value, str) and len(value) >= COMPARED_CHARACTERS:
        budget.spend(len(value) // COMPARED_CHARACTERS)
    size = _SIZES.get(type(value))
    if size is None:
        raise ExpressionError("wrong_type", "A value is not JSON.")
    return size(value)


def _integer_size(value: int) -> int:
    # Python refuses to write integers of more than 4,300 digits.
    if value.bit_length() > 4096:
        raise _too_large()
    return len(str(value))


_SIZES: dict[type, Callable[[Any], int]] = {
    str: _string_size,
    int: _integer_size,
    float: lambda value: len(repr(finite(value))),
    bool: lambda value: 4 if value else 5,
    type(None): lambda value: 4,
}


def compact_json(value: JSON) -> str:
    """Return a measured value as compact JSON."""
    return _ENCODER.encode(value)


def _too_large() -> ExpressionError:
    return ExpressionError("wrong_type", "A number is too large.")


def finite(value: float) -> float:
    """Return the number itself, unless JSON has no form for it.

    Raises:
        ExpressionError: `wrong_type` for infinity and NaN.
    """
    if not math.isfinite(value):
        raise _too_large()
    return value


def plain_number(value: int | float) -> int | float:
    """Return a number of an expression: an integer beyond 64 bits becomes a float, none is infinite."""
    if isinstance(value, int) and MIN_INTEGER <= value <= MAX_INTEGER:
        return value
    try:
        return finite(float(value))
    except OverflowError:
        raise _too_large() from None


def type_name(value: JSON) -> str:
    """Return the type of a value as JMESPath calls it."""
    if isinstance(value, str):
        return "string"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, list):
        return "array"
    return "object"


def truthy(value: JSON) -> bool:
    """Truth in JMESPath: all but null, false and the empty string, array and object; 0 is true."""
    if value:
        return True
    return value is not False and isinstance(value, (int, float))


def equals(left: JSON, right: JSON, budget: Budget) -> bool:
    """Equality in JMESPath: by value, at any depth, and `true` is not `1`; charged by what is compared."""
    if isinstance(left, str):
        if not isinstance(right, str) or len(left) != len(right):
            return False
        budget.spend(len(left) // COMPARED_CHARACTERS)
        return left == right
    if isinstance(left, (list, dict)):
        return _equal_containers(left, right, budget, 0)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right


def charge_names(value: dict[str, JSON], budget: Budget) -> None:
    """Charge for looking all names of an object up in another."""
    budget.spend(1 + len(value) // CHEAP_VISITS)
    budget.spend(sum(map(len, value)) // COMPARED_CHARACTERS)


def _equal_containers(left: list[JSON] | dict[str, JSON], right: JSON, budget: Budget, depth: int) -> bool:
    if left is right:
        return True
    if depth > MAX_VALUE_DEPTH:
        raise _nested_too_deep()
    if isinstance(left, list):
        if not isinstance(right, list) or len(left) != len(right):
            return False
        pairs = zip(left, right, strict=True)
    else:
        if not isinstance(right, dict) or len(left) != len(right):
            return False
        charge_names(left, budget)
        if left.keys() != right.keys():
            return False
        pairs = ((value, right[key]) for key, value in left.items())
    for one, other in pairs:
        budget.spend(1)
        if isinstance(one, (list, dict)):
            if not _equal_containers(one, other, budget, depth + 1):
                return False
        elif not equals(one, other, budget):
            return False
    return True
