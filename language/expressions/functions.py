"""The 26 functions of JMESPath, each charging its budget before it works."""

from __future__ import annotations

import json
import math
from functools import reduce
from operator import add
from typing import Any, cast

from language.expressions.signatures import (
    CHECKS,
    Library,
    Mapper,
    all_numbers,
    all_strings,
    characters,
    charge_search,
    charge_string,
    odd_one,
    visit,
)
from language.expressions.values import (
    COMPARED_CHARACTERS,
    JSON,
    PRODUCED_CHARACTERS,
    Budget,
    ExpressionError,
    charge_names,
    compact_json,
    equals,
    plain_number,
    type_name,
)

# Comparisons of a sort that make one node.
_SORTED = 16

SPECIFIED = Library()
"""The functions of jmespath.org."""


@SPECIFIED.function("a number")
def _abs(budget: Budget, value: int | float) -> JSON:
    return plain_number(abs(value))


@SPECIFIED.function("a number")
def _ceil(budget: Budget, value: int | float) -> JSON:
    return plain_number(math.ceil(plain_number(value)))


@SPECIFIED.function("a number")
def _floor(budget: Budget, value: int | float) -> JSON:
    return plain_number(math.floor(plain_number(value)))


def _total(numbers: list[int | float]) -> int | float:
    try:
        # Not sum(): from Python 3.12 on it rounds in another way, and a replay must not.
        return reduce(add, numbers, 0)
    except OverflowError:
        raise ExpressionError("wrong_type", "A sum is too large.") from None


@SPECIFIED.function("an array of numbers")
def _sum(budget: Budget, numbers: list[int | float]) -> JSON:
    return plain_number(_total(numbers))


@SPECIFIED.function("an array of numbers")
def _avg(budget: Budget, numbers: list[int | float]) -> JSON:
    if not numbers:
        return None
    total = _total(numbers)
    try:
        return plain_number(total / len(numbers))
    except OverflowError:
        raise ExpressionError("wrong_type", "A sum is too large.") from None


@SPECIFIED.function("an array or a string", "any value")
def _contains(budget: Budget, subject: list[JSON] | str, search: JSON) -> JSON:
    if isinstance(subject, str):
        if not isinstance(search, str):
            return False
        charge_search(budget, len(subject), len(search))
        return search in subject
    visit(budget, len(subject))
    if isinstance(search, str):
        budget.spend(len(subject) * (len(search) // COMPARED_CHARACTERS))
    # Python's `in` is quick, but to it `true` is 1, and it compares arrays as deep as they go.
    if not isinstance(search, (list, dict)) and search not in subject:
        return False
    return any(equals(item, search, budget) for item in subject)


@SPECIFIED.function("a string", "a string")
def _starts_with(budget: Budget, subject: str, prefix: str) -> JSON:
    budget.spend(len(prefix) // COMPARED_CHARACTERS)
    return subject.startswith(prefix)


@SPECIFIED.function("a string", "a string")
def _ends_with(budget: Budget, subject: str, suffix: str) -> JSON:
    budget.spend(len(suffix) // COMPARED_CHARACTERS)
    return subject.endswith(suffix)


@SPECIFIED.function("a string", "an array of strings")
def _join(budget: Budget, glue: str, strings: list[str]) -> JSON:
    length = characters(strings) + len(glue) * max(0, len(strings) - 1)
    charge_string(budget, length)
    return glue.join(strings)


@SPECIFIED.function("an array, an object or a string")
def _length(budget: Budget, value: list[JSON] | dict[str, JSON] | str) -> JSON:
    return len(value)


@SPECIFIED.function("an object")
def _keys(budget: Budget, value: dict[str, JSON]) -> JSON:
    visit(budget, len(value))
    return list(value)


@SPECIFIED.function("an object")
def _values(budget: Budget, value: dict[str, JSON]) -> JSON:
    visit(budget, len(value))
    return list(value.values())


@SPECIFIED.function("an object", variadic=True)
def _merge(budget: Budget, *objects: dict[str, JSON]) -> JSON:
    for value in objects:
        charge_names(value, budget)
    merged: dict[str, JSON] = {}
    for value in objects:
        merged.update(value)
    return merged


@SPECIFIED.function("an expression (&…)", "an array")
def _map(budget: Budget, apply: Mapper, array: list[JSON]) -> JSON:
    return apply(array)


@SPECIFIED.function("any value", variadic=True)
def _not_null(budget: Budget, *values: JSON) -> JSON:
    return next((value for value in values if value is not None), None)


@SPECIFIED.function("an array or a string")
def _reverse(budget: Budget, value: list[JSON] | str) -> JSON:
    if isinstance(value, str):
        charge_string(budget, len(value))
    else:
        visit(budget, len(value))
    return value[::-1]


@SPECIFIED.function("any value")
def _to_array(budget: Budget, value: JSON) -> JSON:
    return value if isinstance(value, list) else [value]


@SPECIFIED.function("any value")
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


@SPECIFIED.function("any value")
def _to_string(budget: Budget, value: JSON) -> JSON:
    if isinstance(value, str):
        return value
    length = budget.measure(value)
    # Measured and written, number by number.
    budget.spend(3 * length // PRODUCED_CHARACTERS)
    charge_string(budget, length)
    return compact_json(value)


@SPECIFIED.function("any value")
def _type(budget: Budget, value: JSON) -> JSON:
    return type_name(value)


def _charge_comparisons(budget: Budget, values: list[Any], rounds: int) -> None:
    budget.spend(len(values) * rounds // _SORTED)
    if values and isinstance(values[0], str):
        budget.spend(characters(values) * rounds // COMPARED_CHARACTERS)


def _charge_sort(budget: Budget, values: list[Any]) -> None:
    _charge_comparisons(budget, values, len(values).bit_length())


@SPECIFIED.function("an array of numbers or of strings")
def _sort(budget: Budget, array: list[Any]) -> JSON:
    _charge_sort(budget, array)
    return sorted(array)


@SPECIFIED.function("an array of numbers or of strings")
def _max(budget: Budget, array: list[Any]) -> JSON:
    _charge_comparisons(budget, array, 2)
    return max(array, default=None)


@SPECIFIED.function("an array of numbers or of strings")
def _min(budget: Budget, array: list[Any]) -> JSON:
    _charge_comparisons(budget, array, 2)
    return min(array, default=None)


def _sort_keys(function: str, apply: Mapper, array: list[JSON]) -> list[Any]:
    keys = apply(array)
    if not all_numbers(keys) and not all_strings(keys):
        odd = odd_one(keys, "an array of numbers or of strings")
        message = f"The expression of {function}() gives neither all numbers nor all strings: {odd}."
        raise ExpressionError("wrong_type", message)
    return keys


@SPECIFIED.function("an array", "an expression (&…)")
def _sort_by(budget: Budget, array: list[JSON], apply: Mapper) -> JSON:
    keys = _sort_keys("sort_by", apply, array)
    _charge_sort(budget, keys)
    return [array[index] for index in sorted(range(len(array)), key=keys.__getitem__)]


@SPECIFIED.function("an array", "an expression (&…)")
def _max_by(budget: Budget, array: list[JSON], apply: Mapper) -> JSON:
    keys = _sort_keys("max_by", apply, array)
    _charge_comparisons(budget, keys, 2)
    return array[max(range(len(array)), key=keys.__getitem__)] if array else None


@SPECIFIED.function("an array", "an expression (&…)")
def _min_by(budget: Budget, array: list[JSON], apply: Mapper) -> JSON:
    keys = _sort_keys("min_by", apply, array)
    _charge_comparisons(budget, keys, 2)
    return array[min(range(len(array)), key=keys.__getitem__)] if array else None
