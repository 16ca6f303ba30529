"""Signatures of functions: parameters, their types, and the errors of arguments that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NotRequired, TypedDict

from jmespath.functions import FunctionRegistry

from language.expressions.values import (
    CHEAP_VISITS,
    COMPARED_CHARACTERS,
    JSON,
    PRODUCED_CHARACTERS,
    Budget,
    ExpressionError,
    output_too_large,
    type_name,
)

# An expression given with `&`: from values to its results, charged.
Mapper = Callable[[list[JSON]], list[JSON]]


class Parameter(TypedDict):
    """A parameter as jmespath's `signature` has it, and what it lacks.

    Attributes:
        types: any of which an argument may be; all, if there are none.
        wanted: the same in words.
        variadic: whether the parameter, the last one, may be given any number of times.
        optional: whether it may be left out.
        check: raises `invalid_value` for an argument that is written out and can never be right, so that it
            is refused before anything is evaluated.
    """

    types: list[str]
    wanted: str
    variadic: NotRequired[bool]
    optional: NotRequired[bool]
    check: NotRequired[Callable[[Any], object]]


ANY: Parameter = {"types": [], "wanted": "any value"}
NUMBER: Parameter = {"types": ["number"], "wanted": "a number"}
STRING: Parameter = {"types": ["string"], "wanted": "a string"}
ARRAY: Parameter = {"types": ["array"], "wanted": "an array"}
OBJECT: Parameter = {"types": ["object"], "wanted": "an object"}
EXPRESSION: Parameter = {"types": ["expref"], "wanted": "an expression (&…)"}
NUMBERS: Parameter = {"types": ["array-number"], "wanted": "an array of numbers"}
STRINGS: Parameter = {"types": ["array-string"], "wanted": "an array of strings"}
NUMBERS_OR_STRINGS: Parameter = {
    "types": ["array-number", "array-string"],
    "wanted": "an array of numbers or of strings",
}
OBJECTS: Parameter = {"types": ["array-object"], "wanted": "an array of objects"}
ARRAY_OR_STRING: Parameter = {"types": ["array", "string"], "wanted": "an array or a string"}
ARRAY_OBJECT_OR_STRING: Parameter = {
    "types": ["array", "object", "string"],
    "wanted": "an array, an object or a string",
}


class Functions(metaclass=FunctionRegistry):
    """Functions as jmespath declares them: methods `_func_<name>` with a `signature`. They charge the budget.

    Nothing is inherited from jmespath's own class, whose functions know no bounds.
    """

    budget: Budget


class Function(NamedTuple):
    """A function: what it takes, and what it does with arguments of those types.

    Attributes:
        name: as expressions call it.
        parameters: the arguments that it needs, then those that may be left out.
        call: takes the functions, for their budget, and the arguments.
    """

    name: str
    parameters: tuple[Parameter, ...]
    call: Callable[..., JSON]

    def check_arity(self, count: int, position: int) -> None:
        """Raise `wrong_arity` if the function does not take that many arguments."""
        most = len(self.parameters)
        least = sum("optional" not in parameter for parameter in self.parameters)
        variadic = "variadic" in self.parameters[-1]
        if count < least or (count > most and not variadic):
            wanted = f"{least} to {most}" if most > least else f"{'at least ' if variadic else ''}{least}"
            plural = "s" if most > 1 else ""
            message = f"{self.name}() takes {wanted} argument{plural}, not {count}."
            raise ExpressionError("wrong_arity", message, position)

    def parameter(self, index: int) -> Parameter:
        """Return the parameter at an index; the last one of a variadic function repeats."""
        return self.parameters[min(index, len(self.parameters) - 1)]


_NUMBERS = frozenset({int, float})
_STRINGS = frozenset({str})
_OBJECTS = frozenset({dict})


def all_numbers(value: JSON) -> bool:
    """Return whether a value is an array of numbers alone."""
    return isinstance(value, list) and _NUMBERS.issuperset(map(type, value))


def all_strings(value: JSON) -> bool:
    """Return whether a value is an array of strings alone."""
    return isinstance(value, list) and _STRINGS.issuperset(map(type, value))


CHECKS: dict[str, Callable[[JSON], bool]] = {
    "a number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "a string": lambda value: isinstance(value, str),
    "an array": lambda value: isinstance(value, list),
    "an object": lambda value: isinstance(value, dict),
    "an array of numbers": all_numbers,
    "an array of strings": all_strings,
    "an array of numbers or of strings": lambda value: all_numbers(value) or all_strings(value),
    "an array of objects": lambda value: isinstance(value, list) and _OBJECTS.issuperset(map(type, value)),
    "an array or a string": lambda value: isinstance(value, (list, str)),
    "an array, an object or a string": lambda value: isinstance(value, (list, dict, str)),
}

# To check them takes a look at each element, which is charged before; functions need not charge for it again.
CHECKED_BY_ELEMENT = frozenset(wanted for wanted in CHECKS if wanted.startswith("an array of "))
# What the elements of such an array may be, apart from where the first decides.
_ELEMENTS = {
    "an array of numbers": "number",
    "an array of strings": "string",
    "an array of objects": "object",
}


def called_type(value: JSON) -> str:
    """Return the type of a value with its article; null has none."""
    name = type_name(value)
    return name if name == "null" else f"{'an' if name[0] in 'ao' else 'a'} {name}"


def odd_one(array: list[JSON], wanted: str) -> str:
    """Tell which element of an array is the first of another type, and of which.

    Args:
        array: with such an element.
        wanted: a parameter, or one where the first number or string decides about the others.
    """
    type_wanted = _ELEMENTS.get(wanted)
    for index, item in enumerate(array):
        found = type_name(item)
        if type_wanted is None and found in ("number", "string"):
            type_wanted = found
        if found != type_wanted:
            return f"element {index} is {called_type(item)}"
    return "an element is something else"


def wrong_type(function: str, wanted: str, value: JSON, position: int | None = None) -> ExpressionError:
    """Return the error of an argument whose type the function does not take."""
    if isinstance(value, list) and wanted in CHECKED_BY_ELEMENT:
        message = f"{function}() takes {wanted}, but {odd_one(value, wanted)}."
    else:
        message = f"{function}() takes {wanted}, not {called_type(value)}."
    return ExpressionError("wrong_type", message, position)


def invalid_value(message: str) -> ExpressionError:
    """Return the error of an argument of the right type whose value the function cannot use."""
    return ExpressionError("invalid_value", message)


def whole(function: str, value: int | float, *, least: int | None = None) -> int:
    """Return a number that has to be whole.

    Raises:
        ExpressionError: `invalid_value` if it is not, or less than `least`.
    """
    if isinstance(value, float):
        if not value.is_integer():
            raise invalid_value(f"{function}() takes a whole number here.")
        value = int(value)
    if least is not None and value < least:
        raise invalid_value(f"{function}() takes a number of {least} or more here.")
    return value


def visit(budget: Budget, items: int) -> None:
    """Charge for a cheap look at so many elements."""
    budget.spend(items // CHEAP_VISITS)


def charge_string(budget: Budget, length: int) -> None:
    """Charge for making a string of so many characters."""
    if length > budget.output_left:
        raise output_too_large()
    budget.spend(length // PRODUCED_CHARACTERS)


def charge_search(budget: Budget, length: int, searched: int, times: int = 1) -> None:
    """Charge for finding a text, from left to right, in another of the given length."""
    budget.spend(times * _looks(length, searched) // COMPARED_CHARACTERS)


def _looks(length: int, searched: int) -> int:
    """Return the most characters that Python compares to find a text in another of the given length.

    It takes every place and every character in a text below 30,000 characters, and in the last 2,000 places
    of any; elsewhere it is linear (Objects/stringlib/fastsearch.h).
    """
    if length < 30_000:
        return length * (2 + min(searched, 1000))
    return length * (2 + min(searched, 8)) + max(0, min(length - searched, 2000)) * searched


def characters(values: list[Any]) -> int:
    """Return the total length of strings."""
    return sum(map(len, values))
