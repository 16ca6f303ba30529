"""When two values are the same, however they are written. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from models.monitors.defaults import DEFAULTS, Defaults, Key
from models.names import bare_name

Fold = Callable[[str], str]
"""A text → what is the same for all ways to write it."""

_EXACT = 2**53  # up to here, a float that is whole is one integer only


def canonical(value: Any, fold: Fold = str) -> bytes:
    """What two values have in common exactly when they are the same.

    Arrays are the same in any order and with any repetition, numbers by value (1 and 1.0, but not true), and
    texts that fold to one.
    """
    return _dumped(_canonical(value, fold))


def _dumped(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _canonical(value: Any, fold: Fold) -> Any:
    if isinstance(value, str):
        return fold(value)
    if value is None or value == []:
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    if isinstance(value, dict):
        parts = cast("dict[str, Any]", value)
        return {name: _canonical(part, fold) for name, part in parts.items()}
    if isinstance(value, list):
        items = {canonical(item, fold) for item in cast("list[Any]", value)}
        return [item.decode() for item in sorted(items)]
    return value


@dataclass(frozen=True)
class Form:
    """How the values of one field are compared.

    Attributes:
        fold: of its text, or of the texts in its array.
        members: for a list of objects the members that count, each with its fold.
        key: for a list of objects, by which members one is known.
    """

    fold: Fold = str
    members: Mapping[str, Fold] = field(default_factory=dict[str, Fold])
    key: Key = ()

    def of(self, value: Any) -> bytes:
        """The canonical form of a whole value of the field, as far as it counts."""
        if not self.members or not value:
            return canonical(value, self.fold)
        return b"\0".join(sorted({self.of_item(item) for item in value}))

    def of_item(self, item: Any) -> bytes:
        """The canonical form of what counts in one item of a list."""
        if not self.members:
            return canonical(item, self.fold)
        return _dumped([_canonical(item.get(name), fold) for name, fold in self.members.items()])

    def whole_item(self, item: Any) -> bytes:
        """The same with all by which the item is known."""
        return b"\0".join([*(self.key_of(item, group) for group in self.key), self.of_item(item)])

    def key_of(self, item: Any, group: tuple[str, ...]) -> bytes:
        """By which an object is known; case means nothing in that."""
        return _dumped([_canonical(item.get(name), str.casefold) for name in group])


def form_of(kind: str, path: str, members: Iterable[str] = ()) -> Form:
    """How a field of a kind is compared, with those members of its objects that count."""
    defaults = DEFAULTS[kind]
    folds = {member: _fold(defaults, f"{path}.{member}") for member in members}
    return Form(_fold(defaults, path), folds, defaults.keys.get(path, ()))


def _fold(defaults: Defaults, path: str) -> Fold:
    if path in defaults.names:
        return bare_name
    if path in defaults.numbered:
        return _without_numbers
    return str.casefold if path in defaults.caseless else str


def _without_numbers(text: str) -> str:
    return " ".join(word for word in text.split() if not any(map(str.isdigit, word)))
