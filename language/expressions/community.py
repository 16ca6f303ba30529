"""Functions of JMESPath Community (jmespath.site) beside those of jmespath.org, each charging its budget."""

from __future__ import annotations

from typing import Any

from jmespath.functions import signature

from language.expressions.signatures import (
    ARRAY,
    EXPRESSION,
    NUMBER,
    OBJECT,
    OBJECTS,
    STRING,
    Functions,
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

# The White_Space of Unicode; Python's own strip() takes four control characters too.
_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)
# What trimming one character costs beside a comparison; so many characters to be removed cost as much again.
_TRIMMED, _SET = 8, 32
# The quotes and the comma of a string in an array.
_FRAME = 3


def _bound_text(budget: Budget, text: str) -> str:
    """Return a text whose characters may each have become several."""
    if len(text) > budget.output_left:
        raise output_too_large()
    return text


def _charge_trim(budget: Budget, subject: str, chars: str) -> str:
    """Charge for a trim, and give what it removes."""
    chars = chars or _SPACE
    budget.spend(len(subject) * _TRIMMED * (1 + len(chars) // _SET) // COMPARED_CHARACTERS)
    return chars


def _padding(budget: Budget, function: str, subject: str, width: int | float, pad: str) -> str:
    width = whole(function, width)
    if len(pad) != 1:
        raise invalid_value(f"{function}() pads with one character.")
    charge_string(budget, max(width, len(subject)))
    return pad * (width - len(subject))


def _range(
    function: str, subject: str, start: int | float = 0, end: int | float | None = None
) -> tuple[int, int]:
    return whole(function, start), len(subject) if end is None else whole(function, end)


class Community(Functions):
    """The functions of JMESPath Community."""

    @signature(STRING)
    def _func_lower(self, subject: str) -> JSON:
        charge_string(self.budget, len(subject))
        return _bound_text(self.budget, subject.lower())

    @signature(STRING)
    def _func_upper(self, subject: str) -> JSON:
        charge_string(self.budget, len(subject))
        return _bound_text(self.budget, subject.upper())

    @signature(STRING, {**STRING, "optional": True})
    def _func_trim(self, subject: str, chars: str = "") -> JSON:
        return subject.strip(_charge_trim(self.budget, subject, chars))

    @signature(STRING, {**STRING, "optional": True})
    def _func_trim_left(self, subject: str, chars: str = "") -> JSON:
        return subject.lstrip(_charge_trim(self.budget, subject, chars))

    @signature(STRING, {**STRING, "optional": True})
    def _func_trim_right(self, subject: str, chars: str = "") -> JSON:
        return subject.rstrip(_charge_trim(self.budget, subject, chars))

    @signature(STRING, NUMBER, {**STRING, "optional": True})
    def _func_pad_left(self, subject: str, width: int | float, pad: str = " ") -> JSON:
        return _padding(self.budget, "pad_left", subject, width, pad) + subject

    @signature(STRING, NUMBER, {**STRING, "optional": True})
    def _func_pad_right(self, subject: str, width: int | float, pad: str = " ") -> JSON:
        return subject + _padding(self.budget, "pad_right", subject, width, pad)

    @signature(STRING, STRING, {**NUMBER, "optional": True}, {**NUMBER, "optional": True})
    def _func_find_first(self, subject: str, sub: str, *bounds: int | float) -> JSON:
        start, end = _range("find_first", subject, *bounds)
        charge_search(self.budget, len(subject), len(sub))
        found = subject.find(sub, start, end) if sub else -1
        return None if found < 0 else found

    @signature(STRING, STRING, {**NUMBER, "optional": True}, {**NUMBER, "optional": True})
    def _func_find_last(self, subject: str, sub: str, *bounds: int | float) -> JSON:
        start, end = _range("find_last", subject, *bounds)
        # From the right Python has nothing better than to try each place.
        self.budget.spend(len(subject) * (2 + len(sub)) // COMPARED_CHARACTERS)
        found = subject.rfind(sub, start, end) if sub else -1
        return None if found < 0 else found

    @signature(STRING, STRING, {**NUMBER, "optional": True})
    def _func_split(self, subject: str, search: str, count: int | float | None = None) -> JSON:
        most = len(subject) if count is None else min(len(subject), whole("split", count, least=0))
        charge_search(self.budget, len(subject), len(search), times=2)
        pieces = min(most, subject.count(search)) + 1
        if len(subject) + _FRAME * pieces > self.budget.output_left:
            raise output_too_large()
        visit(self.budget, pieces)
        charge_string(self.budget, len(subject))
        if search:
            return [*subject.split(search, most)]
        # Nothing stands between all characters, so each is a part of its own.
        rest = subject[most:]
        return [*subject[:most], *([rest] if rest or (not most and count is not None) else [])]

    @signature(STRING, STRING, STRING, {**NUMBER, "optional": True})
    def _func_replace(self, subject: str, old: str, new: str, count: int | float | None = None) -> JSON:
        most = len(subject) + 1 if count is None else min(len(subject) + 1, whole("replace", count, least=0))
        charge_search(self.budget, len(subject), len(old), times=2)
        times = min(most, subject.count(old))
        charge_string(self.budget, len(subject) + times * (len(new) - len(old)))
        return subject.replace(old, new, most)

    @signature(OBJECTS, EXPRESSION)
    def _func_group_by(self, elements: list[dict[str, Any]], apply: Mapper) -> JSON:
        groups: dict[str, list[JSON]] = {}
        keys = apply([*elements])
        self.budget.spend(sum(len(key) for key in keys if isinstance(key, str)) // COMPARED_CHARACTERS)
        for index, (element, key) in enumerate(zip(elements, keys, strict=True)):
            if isinstance(key, str):
                groups.setdefault(key, []).append(element)
            elif key is not None:
                message = "The expression of group_by() gives neither strings nor null: "
                raise ExpressionError("wrong_type", f"{message}element {index} is {called_type(key)}.")
        return {**groups}

    @signature(OBJECT)
    def _func_items(self, value: dict[str, JSON]) -> JSON:
        self.budget.spend(len(value))
        return [[name, item] for name, item in value.items()]

    @signature(ARRAY)
    def _func_from_items(self, pairs: list[JSON]) -> JSON:
        self.budget.spend(len(pairs))
        made: dict[str, JSON] = {}
        for index, pair in enumerate(pairs):
            if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
                message = f"from_items() takes pairs of a name and a value; element {index} is none."
                raise ExpressionError("wrong_type", message)
            made[pair[0]] = pair[1]
        charge_names(made, self.budget)
        return made

    @signature({**ARRAY, "variadic": True})
    def _func_zip(self, *arrays: list[JSON]) -> JSON:
        rows = min(map(len, arrays))
        self.budget.spend(rows * len(arrays))
        return [list(row) for row in zip(*arrays, strict=False)]
