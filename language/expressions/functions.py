"""The 26 functions of JMESPath, each charging its budget before it works."""

from __future__ import annotations

import json
import math
from functools import reduce
from operator import add
from typing import Any, cast

from jmespath.functions import signature

from language.expressions.signatures import (
    ANY,
    ARRAY,
    ARRAY_OBJECT_OR_STRING,
    ARRAY_OR_STRING,
    CHECKS,
    EXPRESSION,
    NUMBER,
    NUMBERS,
    NUMBERS_OR_STRINGS,
    OBJECT,
    STRING,
    STRINGS,
    Functions,
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


def _total(numbers: list[int | float]) -> int | float:
    try:
        # Not sum(): from Python 3.12 on it rounds in another way, and a replay must not.
        return reduce(add, numbers, 0)
    except OverflowError:
        raise ExpressionError("wrong_type", "A sum is too large.") from None


def _charge_comparisons(budget: Budget, values: list[Any], rounds: int) -> None:
    budget.spend(len(values) * rounds // _SORTED)
    if values and isinstance(values[0], str):
        budget.spend(characters(values) * rounds // COMPARED_CHARACTERS)


def _charge_sort(budget: Budget, values: list[Any]) -> None:
    _charge_comparisons(budget, values, len(values).bit_length())


def _sort_keys(function: str, apply: Mapper, array: list[JSON]) -> list[Any]:
    keys = apply(array)
    if not all_numbers(keys) and not all_strings(keys):
        odd = odd_one(keys, "an array of numbers or of strings")
        message = f"The expression of {function}() gives neither all numbers nor all strings: {odd}."
        raise ExpressionError("wrong_type", message)
    return keys


class Specified(Functions):
    """The functions of jmespath.org."""

    @signature(NUMBER)
    def _func_abs(self, value: int | float) -> JSON:
        return plain_number(abs(value))

    @signature(NUMBER)
    def _func_ceil(self, value: int | float) -> JSON:
        return plain_number(math.ceil(plain_number(value)))

    @signature(NUMBER)
    def _func_floor(self, value: int | float) -> JSON:
        return plain_number(math.floor(plain_number(value)))

    @signature(NUMBERS)
    def _func_sum(self, numbers: list[int | float]) -> JSON:
        return plain_number(_total(numbers))

    @signature(NUMBERS)
    def _func_avg(self, numbers: list[int | float]) -> JSON:
        if not numbers:
            return None
        total = _total(numbers)
        try:
            return plain_number(total / len(numbers))
        except OverflowError:
            raise ExpressionError("wrong_type", "A sum is too large.") from None

    @signature(ARRAY_OR_STRING, ANY)
    def _func_contains(self, subject: list[JSON] | str, search: JSON) -> JSON:
        if isinstance(subject, str):
            if not isinstance(search, str):
                return False
            charge_search(self.budget, len(subject), len(search))
            return search in subject
        visit(self.budget, len(subject))
        if isinstance(search, str):
            self.budget.spend(len(subject) * (len(search) // COMPARED_CHARACTERS))
        # Python's `in` is quick, but to it `true` is 1, and it compares arrays as deep as they go.
        if not isinstance(search, (list, dict)) and search not in subject:
            return False
        return any(equals(item, search, self.budget) for item in subject)

    @signature(STRING, STRING)
    def _func_starts_with(self, subject: str, prefix: str) -> JSON:
        self.budget.spend(len(prefix) // COMPARED_CHARACTERS)
        return subject.startswith(prefix)

    @signature(STRING, STRING)
    def _func_ends_with(self, subject: str, suffix: str) -> JSON:
        self.budget.spend(len(suffix) // COMPARED_CHARACTERS)
        return subject.endswith(suffix)

    @signature(STRING, STRINGS)
    def _func_join(self, glue: str, strings: list[str]) -> JSON:
        length = characters(strings) + len(glue) * max(0, len(strings) - 1)
        charge_string(self.budget, length)
        return glue.join(strings)

    @signature(ARRAY_OBJECT_OR_STRING)
    def _func_length(self, value: list[JSON] | dict[str, JSON] | str) -> JSON:
        return len(value)

    @signature(OBJECT)
    def _func_keys(self, value: dict[str, JSON]) -> JSON:
        visit(self.budget, len(value))
        return list(value)

    @signature(OBJECT)
    def _func_values(self, value: dict[str, JSON]) -> JSON:
        visit(self.budget, len(value))
        return list(value.values())

    @signature({**OBJECT, "variadic": True})
    def _func_merge(self, *objects: dict[str, JSON]) -> JSON:
        for value in objects:
            charge_names(value, self.budget)
        merged: dict[str, JSON] = {}
        for value in objects:
            merged.update(value)
        return merged

    @signature(EXPRESSION, ARRAY)
    def _func_map(self, apply: Mapper, array: list[JSON]) -> JSON:
        return apply(array)

    @signature({**ANY, "variadic": True})
    def _func_not_null(self, *values: JSON) -> JSON:
        return next((value for value in values if value is not None), None)

    @signature(ARRAY_OR_STRING)
    def _func_reverse(self, value: list[JSON] | str) -> JSON:
        if isinstance(value, str):
            charge_string(self.budget, len(value))
        else:
            visit(self.budget, len(value))
        return value[::-1]

    @signature(ANY)
    def _func_to_array(self, value: JSON) -> JSON:
        return value if isinstance(value, list) else [value]

    @signature(ANY)
    def _func_to_number(self, value: JSON) -> JSON:
        if not isinstance(value, str):
            return value if CHECKS["a number"](value) else None
        self.budget.spend(len(value) // PRODUCED_CHARACTERS)
        # The grammar of JSON's numbers; Python's own takes `1_0`, ` 1` and `nan` too.
        if not value or value[0] not in "-0123456789" or value[-1] not in "0123456789":
            return None
        try:
            return plain_number(cast("int | float", json.loads(value)))
        except (ValueError, ExpressionError):
            return None

    @signature(ANY)
    def _func_to_string(self, value: JSON) -> JSON:
        if isinstance(value, str):
            return value
        length = self.budget.measure(value)
        # Measured and written, number by number.
        self.budget.spend(3 * length // PRODUCED_CHARACTERS)
        charge_string(self.budget, length)
        return compact_json(value)

    @signature(ANY)
    def _func_type(self, value: JSON) -> JSON:
        return type_name(value)

    @signature(NUMBERS_OR_STRINGS)
    def _func_sort(self, array: list[Any]) -> JSON:
        _charge_sort(self.budget, array)
        return sorted(array)

    @signature(NUMBERS_OR_STRINGS)
    def _func_max(self, array: list[Any]) -> JSON:
        _charge_comparisons(self.budget, array, 2)
        return max(array, default=None)

    @signature(NUMBERS_OR_STRINGS)
    def _func_min(self, array: list[Any]) -> JSON:
        _charge_comparisons(self.budget, array, 2)
        return min(array, default=None)

    @signature(ARRAY, EXPRESSION)
    def _func_sort_by(self, array: list[JSON], apply: Mapper) -> JSON:
        keys = _sort_keys("sort_by", apply, array)
        _charge_sort(self.budget, keys)
        return [array[index] for index in sorted(range(len(array)), key=keys.__getitem__)]

    @signature(ARRAY, EXPRESSION)
    def _func_max_by(self, array: list[JSON], apply: Mapper) -> JSON:
        keys = _sort_keys("max_by", apply, array)
        _charge_comparisons(self.budget, keys, 2)
        return array[max(range(len(array)), key=keys.__getitem__)] if array else None

    @signature(ARRAY, EXPRESSION)
    def _func_min_by(self, array: list[JSON], apply: Mapper) -> JSON:
        keys = _sort_keys("min_by", apply, array)
        _charge_comparisons(self.budget, keys, 2)
        return array[min(range(len(array)), key=keys.__getitem__)] if array else None
