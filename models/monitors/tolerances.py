"""Tolerances: the amount by which a value may move without a change. Pure.

The unit is that of the value: an amount for numbers, days for dates and times, words for other texts. For
arrays of texts it is a number of members, see `rotations`. With 0 every difference is a change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from models.monitors.defaults import DEFAULTS

_DAY_SECONDS = 86_400


def effective_tolerances(kind: str, chosen: Mapping[str, float]) -> dict[str, float]:
    """Return the tolerance of each field of a kind that has one: the chosen one, else the default."""
    return {path: one.amount for path, one in DEFAULTS[kind].tolerances.items()} | dict(chosen)


def without_defaults(kind: str, given: Mapping[str, float]) -> dict[str, float]:
    """Return the tolerances that differ from the defaults: defaults that are sent back are no choice."""
    defaults = effective_tolerances(kind, {})
    return {path: amount for path, amount in given.items() if defaults.get(path) != amount}


def is_number(value: Any) -> bool:
    """Return whether a value is a number, which `true` is not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_within(old: Any, new: Any, tolerance: float) -> bool:
    """Return whether a number, a date or a text has moved by no more than its tolerance."""
    moved = distance(old, new)
    return moved is not None and moved <= tolerance


def distance(old: Any, new: Any) -> float | None:
    """Return the distance of two numbers, dates (in days) or texts (in words); None for other values."""
    if is_number(old) and is_number(new):
        return abs(new - old)
    if not (isinstance(old, str) and isinstance(new, str)):
        return None
    first, last = moment_of(old), moment_of(new)
    if first and last:
        return abs((last - first).total_seconds()) / _DAY_SECONDS
    before, after = Counter(old.split()), Counter(new.split())
    return max((before - after).total(), (after - before).total())


def moment_of(text: str) -> datetime | None:
    """Read a date or a time; return None for any other text."""
    if text[4:5] != "-":
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def keep_age(value: Any, then: datetime, now: datetime) -> Any:
    """Return the date or time that now has the age that `value` had then; return other values unchanged."""
    moment = moment_of(value) if isinstance(value, str) else None
    if moment is None:
        return value
    if len(value) == len("2026-01-31"):
        return (moment.date() + (now.date() - then.date())).isoformat()
    return (moment + (now - then)).isoformat()
