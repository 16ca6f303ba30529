"""The fields of an answer that a monitor watches. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import translate
from functools import cache
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from models.lookups.lookups import LookupAnswer
from models.monitors.defaults import DEFAULTS
from models.monitors.forms import ComparisonRule, Fold, form_of
from models.monitors.tolerances import effective_tolerances

# The search for the nearest of all names takes more than a millisecond.
_MOST_GUESSED = 5

Known = Mapping[str, tuple[str, ...]]
"""Dotted field → the members of its items if it is a list of objects, () for any other field."""

Watch = Mapping[str, ComparisonRule]
"""The fields that a monitor watches: dotted field → the form in which its values are compared."""


@cache
def known_fields(answer: type[LookupAnswer]) -> Known:
    """Return the fields of a kind's answer that can be watched: all but those that every kind has."""
    names = [name for name in answer.model_fields if name not in LookupAnswer.model_fields]
    return dict(_fields(answer, names))


def _fields(model: type[BaseModel], names: Iterable[str]) -> Iterable[tuple[str, tuple[str, ...]]]:
    for name in names:
        annotation: Any = model.model_fields[name].annotation
        inner = next((one for one in (annotation, *get_args(annotation)) if _is_model(one)), None)
        if inner is None:
            yield name, ()
        elif get_origin(annotation) is list:
            yield name, tuple(inner.model_fields)
        else:
            yield from ((f"{name}.{path}", members) for path, members in _fields(inner, inner.model_fields))


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


@dataclass(frozen=True)
class Unmatched:
    """A name that matches no field: the given name and, for the first few, the nearest known name."""

    pattern: str
    nearest: str | None


def find_unmatched(patterns: Iterable[str], known: Known) -> list[Unmatched]:
    """Return the names among `patterns` that match no field.

    Args:
        patterns: fields, blocks (`dns`), members of objects in lists (`profile.officers.role`), or any of
            these with `*` for any characters (`whois.*`, `*.score`).
        known: from `known_fields`.
    """
    leaves = set(_leaves(known))
    names = sorted({name for leaf in leaves for name in _parts_of(leaf)})
    found: list[Unmatched] = []
    for pattern in patterns:
        if not _match_leaves([pattern], leaves):
            near = difflib.get_close_matches(pattern, names, n=1) if len(found) < _MOST_GUESSED else []
            found.append(Unmatched(pattern, near[0] if near else None))
    return found


def _leaves(known: Known) -> Iterable[str]:
    """Yield all that can be watched by itself: fields, and the members of objects in lists."""
    for field, members in known.items():
        yield from (f"{field}.{member}" for member in members) if members else (field,)


def _parts_of(leaf: str) -> list[str]:
    """Return the leaf and all names that contain it: `a.b.c`, `a.b`, `a`."""
    parts = leaf.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _match_leaves(patterns: Iterable[str], leaves: Iterable[str]) -> set[str]:
    tests = [re.compile(translate(pattern)).match for pattern in patterns]
    return {leaf for leaf in leaves if any(test(name) for name in _parts_of(leaf) for test in tests)}


def watch(
    kind: str,
    known: Known,
    tracked: Collection[str] = (),
    ignored: Collection[str] = (),
    tolerances: Mapping[str, float] | None = None,
    network_of: Fold | None = None,
) -> Watch:
    """Return the fields that a monitor watches.

    Args:
        kind: the kind of lookup.
        known: the fields of its answer, from `known_fields`.
        tracked: the names of fields that count, in the form of `unmatched`. None: all fields.
        ignored: the names of fields that do not count, even if they are tracked.
        tolerances: field, or member of the objects in a list → the amount by which it may move, if the
        monitor
            has a tolerance other than the default.
        network_of: address → its network and country; without it, addresses are compared exactly.
    """
    leaves = set(_leaves(known)) - DEFAULTS[kind].clocks - DEFAULTS[kind].spoken
    wanted = _match_leaves(tracked, leaves) if tracked else leaves
    wanted -= _match_leaves(ignored, wanted)
    allowed = effective_tolerances(kind, tolerances or {})
    forms: dict[str, ComparisonRule] = {}
    for field, members in known.items():
        counted = [member for member in members if f"{field}.{member}" in wanted]
        if counted or field in wanted:
            forms[field] = form_of(kind, field, counted, allowed, network_of)
    return forms
