"""Functions of JMESPath Community (jmespath.site) beside those of jmespath.org, each charging its budget."""

from __future__ import annotations

from typing import Any

from language.expressions.signatures import (
    Library,
    Mapper,
    called_type,
    charge_search,
    charge_string,
    invalid_value,
    visit,
    whole,
)
from language.expressions.values import (
    COMPARED_CHARACTERS,
    JSON,
    Budget,
    ExpressionError,
    charge_names,
    output_too_large,
)

COMMUNITY = Library()
"""The functions of JMESPath Community."""

# The White_Space of Unicode; Python's own strip() takes four control characters too.
_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)
# What trimming one character costs beside a comparison; so many characters to be removed cost as much again.
_TRIMMED, _SET = 8, 32
# The quotes and the comma of a string in an array.
_FRAME = 3


@COMMUNITY.function("a string")
def _lower(budget: Budget, subject: str) -> JSON:
    charge_string(budget, len(subject))
    return _bounded(budget, subject.lower())


@COMMUNITY.function("a string")
def _upper(budget: Budget, subject: str) -> JSON:
    charge_string(budget, len(subject))
    return _bounded(budget, subject.upper())


def _bounded(budget: Budget, text: str) -> str:
    """A text whose characters may have become several each."""
    if len(text) > budget.output_left:
        raise output_too_large()
    return text


def _charge_trim(budget: Budget, subject: str, chars: str) -> str:
    """Charge for a trim, and give what it removes."""
    chars = chars or _SPACE
    budget.spend(len(subject) * _TRIMMED * (1 + len(chars) // _SET) // COMPARED_CHARACTERS)
    return chars


@COMMUNITY.function("a string", optional=("a string",))
def _trim(budget: Budget, subject: str, chars: str = "") -> JSON:
    return subject.strip(_charge_trim(budget, subject, chars))


@COMMUNITY.function("a string", optional=("a string",))
def _trim_left(budget: Budget, subject: str, chars: str = "") -> JSON:
    return subject.lstrip(_charge_trim(budget, subject, chars))


@COMMUNITY.function("a string", optional=("a string",))
def _trim_right(budget: Budget, subject: str, chars: str = "") -> JSON:
    return subject.rstrip(_charge_trim(budget, subject, chars))


@COMMUNITY.function("a string", "a number", optional=("a string",))
def _pad_left(budget: Budget, subject: str, width: int | float, pad: str = " ") -> JSON:
    return _padding(budget, "pad_left", subject, width, pad) + subject


@COMMUNITY.function("a string", "a number", optional=("a string",))
def _pad_right(budget: Budget, subject: str, width: int | float, pad: str = " ") -> JSON:
    return subject + _padding(budget, "pad_right", subject, width, pad)


def _padding(budget: Budget, function: str, subject: str, width: int | float, pad: str) -> str:
    width = whole(function, width)
    if len(pad) != 1:
        raise invalid_value(f"{function}() pads with one character.")
    charge_string(budget, max(width, len(subject)))
    return pad * (width - len(subject))


@COMMUNITY.function("a string", "a string", optional=("a number", "a number"))
def _find_first(budget: Budget, subject: str, sub: str, *bounds: int | float) -> JSON:
    start, end = _range("find_first", subject, *bounds)
    charge_search(budget, len(subject), len(sub))
    found = subject.find(sub, start, end) if sub else -1
    return None if found < 0 else found


@COMMUNITY.function("a string", "a string", optional=("a number", "a number"))
def _find_last(budget: Budget, subject: str, sub: str, *bounds: int | float) -> JSON:
    start, end = _range("find_last", subject, *bounds)
    # From the right Python has nothing better than to try each place.
    budget.spend(len(subject) * (2 + len(sub)) // COMPARED_CHARACTERS)
    found = subject.rfind(sub, start, end) if sub else -1
    return None if found < 0 else found


def _range(
    function: str, subject: str, start: int | float = 0, end: int | float | None = None
) -> tuple[int, int]:
    return whole(function, start), len(subject) if end is None else whole(function, end)


@COMMUNITY.function("a string", "a string", optional=("a number",))
def _split(budget: Budget, subject: str, search: str, count: int | float | None = None) -> JSON:
    most = len(subject) if count is None else min(len(subject), whole("split", count, least=0))
    charge_search(budget, len(subject), len(search), times=2)
    pieces = min(most, subject.count(search)) + 1
    if len(subject) + _FRAME * pieces > budget.output_left:
        raise output_too_large()
    visit(budget, pieces)
    charge_string(budget, len(subject))
    if search:
        return [*subject.split(search, most)]
    # Nothing stands between all characters, so each is a part of its own.
    rest = subject[most:]
    return [*subject[:most], *([rest] if rest or (not most and count is not None) else [])]


@COMMUNITY.function("a string", "a string", "a string", optional=("a number",))
def _replace(budget: Budget, subject: str, old: str, new: str, count: int | float | None = None) -> JSON:
    most = len(subject) + 1 if count is None else min(len(subject) + 1, whole("replace", count, least=0))
    charge_search(budget, len(subject), len(old), times=2)
    times = min(most, subject.count(old))
    charge_string(budget, len(subject) + times * (len(new) - len(old)))
    return subject.replace(old, new, most)


@COMMUNITY.function("an array of objects", "an expression (&…)")
def _group_by(budget: Budget, elements: list[dict[str, Any]], apply: Mapper) -> JSON:
    groups: dict[str, list[JSON]] = {}
    keys = apply([*elements])
    budget.spend(sum(len(key) for key in keys if isinstance(key, str)) // COMPARED_CHARACTERS)
    for index, (element, key) in enumerate(zip(elements, keys, strict=True)):
        if isinstance(key, str):
            groups.setdefault(key, []).append(element)
        elif key is not None:
            message = "The expression of group_by() gives neither strings nor null: "
            raise ExpressionError("wrong_type", f"{message}element {index} is {called_type(key)}.")
    return {**groups}


@COMMUNITY.function("an object")
def _items(budget: Budget, value: dict[str, JSON]) -> JSON:
    budget.spend(len(value))
    return [[name, item] for name, item in value.items()]


@COMMUNITY.function("an array")
def _from_items(budget: Budget, pairs: list[JSON]) -> JSON:
    budget.spend(len(pairs))
    made: dict[str, JSON] = {}
    for index, pair in enumerate(pairs):
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
            message = f"from_items() takes pairs of a name and a value; element {index} is none."
            raise ExpressionError("wrong_type", message)
        made[pair[0]] = pair[1]
    charge_names(made, budget)
    return made


@COMMUNITY.function("an array", variadic=True)
def _zip(budget: Budget, *arrays: list[JSON]) -> JSON:
    rows = min(map(len, arrays))
    budget.spend(rows * len(arrays))
    return [list(row) for row in zip(*arrays, strict=False)]
