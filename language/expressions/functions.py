"""The 26 functions of JMESPath, each charging its budget before it works."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any, Literal, NamedTuple, TypeVar, cast

from language.expressions.values import (
    CHEAP_VISITS,
    COMPARED_CHARACTERS,
    JSON,
    PRODUCED_CHARACTERS,
    Budget,
    ExpressionError,
    charge_names,
    compact_json,
    equals,
    output_too_large,
    plain_number,
    type_name,
)

Parameter = Literal[
    "any value", "a number", "a string", "an array", "an object", "an expression (&…)", "an array of numbers",
    "an array of strings", "an array of numbers or of strings", "an array or a string",
    "an array, an object or a string",
]  # fmt: skip
# An expression given with `&`: from values to its results, charged.
Mapper = Callable[[list[JSON]], list[JSON]]
# Comparisons of a sort that make one node.
_SORTED = 16

_NUMBERS = frozenset({int, float})
_STRINGS = frozenset({str})


class Function(NamedTuple):
    """A function: what it takes, and what it does with a budget and arguments of those types."""

    name: str
    parameters: tuple[Parameter, ...]
    variadic: bool
    call: Callable[..., JSON]

    def check_arity(self, count: int, position: int) -> None:
        """Raise `wrong_arity` if the function does not take that many arguments."""
        least = len(self.parameters)
        if count < least or (count > least and not self.variadic):
            wanted = f"{'at least ' if self.variadic else ''}{least} argument{'s' if least > 1 else ''}"
            message = f"{self.name}() takes {wanted}, not {count}."
            raise ExpressionError("wrong_arity", message, position)

    def parameter(self, index: int) -> Parameter:
        """What the argument at an index has to be; the last one of a variadic function repeats."""
        return self.parameters[min(index, len(self.parameters) - 1)]


FUNCTIONS: dict[str, Function] = {}
_Call = TypeVar("_Call", bound=Callable[..., JSON])


def _function(*parameters: Parameter, variadic: bool = False) -> Callable[[_Call], _Call]:
    def register(call: _Call) -> _Call:
        name = call.__name__.removeprefix("_")
        FUNCTIONS[name] = Function(name, parameters, variadic, call)
        return call

    return register


def _all_numbers(value: JSON) -> bool:
    return isinstance(value, list) and _NUMBERS.issuperset(map(type, value))


def _all_strings(value: JSON) -> bool:
    return isinstance(value, list) and _STRINGS.issuperset(map(type, value))


CHECKS: dict[Parameter, Callable[[JSON], bool]] = {
    "a number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "a string": lambda value: isinstance(value, str),
    "an array": lambda value: isinstance(value, list),
    "an object": lambda value: isinstance(value, dict),
    "an array of numbers": _all_numbers,
    "an array of strings": _all_strings,
    "an array of numbers or of strings": lambda value: _all_numbers(value) or _all_strings(value),
    "an array or a string": lambda value: isinstance(value, (list, str)),
    "an array, an object or a string": lambda value: isinstance(value, (list, dict, str)),
}

# To check them takes a look at each element, which is charged before; functions need not charge for it again.
CHECKED_BY_ELEMENT = frozenset(wanted for wanted in CHECKS if wanted.startswith("an array of "))


def wrong_type(function: str, wanted: str, value: JSON) -> ExpressionError:
    """The error of an argument that is not of the type the function takes."""
    given = type_name(value)
    message = f"{function}() takes {wanted}, not {'an' if given[0] in 'ao' else 'a'} {given}."
    if given == "array" and wanted.startswith("an array of"):
        message = f"{function}() takes {wanted}; an element is something else."
    return ExpressionError("wrong_type", message)


def _visit(budget: Budget, items: int) -> None:
    budget.spend(items // CHEAP_VISITS)


def _characters(values: list[Any]) -> int:
    return sum(map(len, values))


@_function("a number")
def _abs(budget: Budget, value: int | float) -> JSON:
    return plain_number(abs(value))


@_function("a number")
def _ceil(budget: Budget, value: int | float) -> JSON:
    return plain_number(math.ceil(plain_number(value)))


@_function("a number")
def _floor(budget: Budget, value: int | float) -> JSON:
    return plain_number(math.floor(plain_number(value)))


def _total(numbers: list[int | float]) -> int | float:
    try:
        # Not sum(): from Python 3.12 on it rounds in another way, and a replay must not.
        return reduce(add, numbers, 0)
    except OverflowError:
        raise ExpressionError("wrong_type", "A sum is too large.") from None


@_function("an array of numbers")
def _sum(budget: Budget, numbers: list[int | float]) -> JSON:
    return plain_number(_total(numbers))


@_function("an array of numbers")
def _avg(budget: Budget, numbers: list[int | float]) -> JSON:
    if not numbers:
        return None
    total = _total(numbers)
    try:
        return plain_number(total / len(numbers))
    except OverflowError:
        raise ExpressionError("wrong_type", "A sum is too large.") from None


def _looks(length: int, searched: int) -> int:
    """How many characters Python compares at worst to find a text in another of the given length.

    It takes every place and every character in a text below 30,000 characters, and in the last 2,000 places
    of any; elsewhere it is linear (Objects/stringlib/fastsearch.h).
    """
    if length < 30_000:
        return length * (2 + min(searched, 1000))
    return length * (2 + min(searched, 8)) + max(0, min(length - searched, 2000)) * searched


@_function("an array or a string", "any value")
def _contains(budget: Budget, subject: list[JSON] | str, search: JSON) -> JSON:
    if isinstance(subject, str):
        if not isinstance(search, str):
            return False
        budget.spend(_looks(len(subject), len(search)) // COMPARED_CHARACTERS)
        return search in subject
    _visit(budget, len(subject))
    if isinstance(search, str):
        budget.spend(len(subject) * (len(search) // COMPARED_CHARACTERS))
    # Python's `in` is quick, but to it `true` is 1, and it compares arrays as deep as they go.
    if not isinstance(search, (list, dict)) and search not in subject:
        return False
    return any(equals(item, search, budget) for item in subject)


@_function("a string", "a string")
def _starts_with(budget: Budget, subject: str, prefix: str) -> JSON:
    budget.spend(len(prefix) // COMPARED_CHARACTERS)
    return subject.startswith(prefix)


@_function("a string", "a string")
def _ends_with(budget: Budget, subject: str, suffix: str) -> JSON:
    budget.spend(len(suffix) // COMPARED_CHARACTERS)
    return subject.endswith(suffix)


@_function("a string", "an array of strings")
def _join(budget: Budget, glue: str, strings: list[str]) -> JSON:
    length = _characters(strings) + len(glue) * max(0, len(strings) - 1)
    _charge_string(budget, length)
    return glue.join(strings)


def _charge_string(budget: Budget, length: int) -> None:
    if length > budget.output_left:
        raise output_too_large()
    budget.spend(length // PRODUCED_CHARACTERS)


@_function("an array, an object or a string")
def _length(budget: Budget, value: list[JSON] | dict[str, JSON] | str) -> JSON:
    return len(value)


@_function("an object")
def _keys(budget: Budget, value: dict[str, JSON]) -> JSON:
    _visit(budget, len(value))
    return list(value)


@_function("an object")
def _values(budget: Budget, value: dict[str, JSON]) -> JSON:
    _visit(budget, len(value))
    return list(value.values())


@_function("an object", variadic=True)
def _merge(budget: Budget, *objects: dict[str, JSON]) -> JSON:
    for value in objects:
        charge_names(value, budget)
    merged: dict[str, JSON] = {}
    for value in objects:
        merged.update(value)
    return merged


@_function("an expression (&…)", "an array")
def _map(budget: Budget, apply: Mapper, array: list[JSON]) -> JSON:
    return apply(array)


@_function("any value", variadic=True)
def _not_null(budget: Budget, *values: JSON) -> JSON:
    return next((value for value in values if value is not None), None)


@_function("an array or a string")
def _reverse(budget: Budget, value: list[JSON] | str) -> JSON:
    if isinstance(value, str):
        _charge_string(budget, len(value))
    else:
        _visit(budget, len(value))
    return value[::-1]


@_function("any value")
def _to_array(budget: Budget, value: JSON) -> JSON:
    return value if isinstance(value, list) else [value]


@_function("any value")
def _to_number(budget: Budget, value: JSON) -> JSON:
    if not isinstance(value, str):
        return value if CHECKS["a number"](value) else None
    budget.spend(len(value) // PRODUCED_CHARACTERS)
    # The grammar of JSON's numbers; Python's own takes `1_0`, ` 1` and `nan` too.
    if not value or value[0] not in "-0123456789" or value[-1] not in "0123456789":
        return None
    try:
        return plain_number(cast("int | float", json.loads(value)))
    except (ValueError, ExpressionError):
        return None


@_function("any value")
def _to_string(budget: Budget, value: JSON) -> JSON:
    if isinstance(value, str):
        return value
    length = budget.measure(value)
    # Measured and written, number by number.
    budget.spend(3 * length // PRODUCED_CHARACTERS)
    _charge_string(budget, length)
    return compact_json(value)


@_function("any value")
def _type(budget: Budget, value: JSON) -> JSON:
    return type_name(value)


def _charge_comparisons(budget: Budget, values: list[Any], rounds: int) -> None:
    budget.spend(len(values) * rounds // _SORTED)
    if values and isinstance(values[0], str):
        budget.spend(_characters(values) * rounds // COMPARED_CHARACTERS)


def _charge_sort(budget: Budget, values: list[Any]) -> None:
    _charge_comparisons(budget, values, len(values).bit_length())


@_function("an array of numbers or of strings")
def _sort(budget: Budget, array: list[Any]) -> JSON:
    _charge_sort(budget, array)
    return sorted(array)


@_function("an array of numbers or of strings")
def _max(budget: Budget, array: list[Any]) -> JSON:
    _charge_comparisons(budget, array, 2)
    return max(array, default=None)


@_function("an array of numbers or of strings")
def _min(budget: Budget, array: list[Any]) -> JSON:
    _charge_comparisons(budget, array, 2)
    return min(array, default=None)


def _sort_keys(function: str, apply: Mapper, array: list[JSON]) -> list[Any]:
    keys = apply(array)
    if not _all_numbers(keys) and not _all_strings(keys):
        message = f"The expression of {function}() gives neither all numbers nor all strings."
        raise ExpressionError("wrong_type", message)
    return keys


@_function("an array", "an expression (&…)")
def _sort_by(budget: Budget, array: list[JSON], apply: Mapper) -> JSON:
    keys = _sort_keys("sort_by", apply, array)
    _charge_sort(budget, keys)
    return [array[index] for index in sorted(range(len(array)), key=keys.__getitem__)]


@_function("an array", "an expression (&…)")
def _max_by(budget: Budget, array: list[JSON], apply: Mapper) -> JSON:
    keys = _sort_keys("max_by", apply, array)
    _charge_comparisons(budget, keys, 2)
    return array[max(range(len(array)), key=keys.__getitem__)] if array else None


@_function("an array", "an expression (&…)")
def _min_by(budget: Budget, array: list[JSON], apply: Mapper) -> JSON:
    keys = _sort_keys("min_by", apply, array)
    _charge_comparisons(budget, keys, 2)
    return array[min(range(len(array)), key=keys.__getitem__)] if array else None
