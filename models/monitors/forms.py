"""The forms in which values are compared: two values can be equal though they are written differently.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast
from urllib.parse import urlsplit

import orjson

from models.monitors.defaults import DEFAULTS, Defaults, Key
from models.monitors.tolerances import is_within
from models.names import bare_name

Fold = Callable[[str], str]
"""A text → a text that is equal for all spellings."""

_EXACT = 2**53  # up to here, a whole float stands for exactly one integer


def canonical(value: Any, fold: Fold = str) -> bytes:
    """Return bytes that two values share exactly when they are equal.

    Arrays are equal in any order and with any repetition, numbers by value (1 and 1.0, but not true), and
    texts if they fold to the same text.
    """
    return _dump_sorted(_canonical(value, fold))


def _dump_sorted(value: Any) -> bytes:
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
class ComparisonRule:
    """The way in which the values of one field are compared.

    Attributes:
        fold: the fold of its text, or of the texts in its array.
        members: for a list of objects the members that count, each with its fold.
        key: for a list of objects, the members that identify one.
        tolerance: the amount by which its value may move; for sets the number of members among which it may
        rotate.
        tolerances: for a list of objects, the amounts by which these members of one may move.
        is_member: whether its value is one member of a set.
        network: for a set of addresses, the network and country of an address: addresses that share them are
        equal.
    """

    fold: Fold = str
    members: Mapping[str, Fold] = field(default_factory=dict[str, Fold])
    key: Key = ()
    tolerance: float = 0
    tolerances: Mapping[str, float] = field(default_factory=dict[str, float])
    is_member: bool = False
    network: Fold | None = None

    @property
    def exact(self) -> ComparisonRule:
        """The same form without tolerances."""
        if self.tolerance or self.tolerances:
            return replace(self, tolerance=0, tolerances={}, network=None)
        return self

    @property
    def folding(self) -> Fold:
        """The fold of its text, or the network of its address."""
        return self.network or self.fold

    def is_near(self, old: Any, new: Any) -> bool:
        """Return whether two values, not lists, are equal or differ by no more than the tolerance."""
        if self.get_form(old) == self.get_form(new):
            return True
        return not self.is_member and _is_within(old, new, self.fold, self.tolerance)

    def is_near_item(self, old: Any, new: Any) -> bool:
        """Return whether the members that count are equal or near in two objects of a list."""
        if not self.tolerances:
            return self.of_item(old) == self.of_item(new)
        return all(
            canonical(old.get(name), fold) == canonical(new.get(name), fold)
            or _is_within(old.get(name), new.get(name), fold, self.tolerances.get(name, 0))
            for name, fold in self.members.items()
        )

    def get_form(self, value: Any) -> bytes:
        """Return the canonical form of a whole value of the field, of the members that count."""
        if not self.members or not value:
            return canonical(value, self.folding)
        return b"\0".join(sorted({self.of_item(item) for item in value}))

    def of_item(self, item: Any) -> bytes:
        """Return the canonical form of the members that count in one item of a list."""
        if not self.members:
            return canonical(item, self.folding)
        return _dump_sorted([_canonical(item.get(name), fold) for name, fold in self.members.items()])

    def whole_item(self, item: Any) -> bytes:
        """Return the canonical form of an item with its key."""
        return b"\0".join([*(self.key_of(item, group) for group in self.key), self.of_item(item)])

    def key_of(self, item: Any, group: tuple[str, ...]) -> bytes:
        """Return the canonical form of the members that identify an object; their case has no meaning."""
        return _dump_sorted([_canonical(item.get(name), str.casefold) for name in group])


def form_of(
    kind: str,
    path: str,
    members: Iterable[str] = (),
    tolerances: Mapping[str, float] | None = None,
    network_of: Fold | None = None,
) -> ComparisonRule:
    """Return the form in which a field of a kind is compared.

    Args:
        kind: the kind of lookup.
        path: the dotted field.
        members: for a list of objects, those of their members that count.
        tolerances: field, or member of the objects in a list → the amount by which it may move.
        network_of: address → its network and country, by which addresses with a tolerance are compared.
    """
    defaults, allowed = DEFAULTS[kind], tolerances or {}
    return ComparisonRule(
        _fold(defaults, path),
        {member: _fold(defaults, f"{path}.{member}") for member in members},
        defaults.keys.get(path, ()),
        allowed.get(path, 0),
        {member: allowed[f"{path}.{member}"] for member in members if allowed.get(f"{path}.{member}")},
        path in defaults.rotating,
        network_of if path in defaults.addresses and allowed.get(path) else None,
    )


def _fold(defaults: Defaults, path: str) -> Fold:
    if path in defaults.names:
        return bare_name
    if path in defaults.pictures:
        return _path_of
    return str.casefold if path in defaults.caseless else str


def _path_of(url: str) -> str:
    try:
        return urlsplit(url).path
    except ValueError:
        return url


def _is_within(old: Any, new: Any, fold: Fold, tolerance: float) -> bool:
    return bool(tolerance) and is_within(_canonical(old, fold), _canonical(new, fold), tolerance)
