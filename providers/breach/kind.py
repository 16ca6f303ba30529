"""The kind `breach`: its sources in the order of precedence, and how their fields become one answer.

Sources name one breach in different ways; its title in the catalogue makes it count once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from providers.breach import hibp, hudsonrock, leakcheck, xposedornot
from providers.breach.answer import BreachAnswer
from providers.breach.catalogue import add_titles
from providers.sources.email_address import normalise
from providers.sources.kind import Derived, Kind
from providers.sources.wording import may_be_more

_NAMED = 5
_SORTS = {"spam_lists": "a spam list", "retired": "retired"}
_NONE = "No known breach contains this address."
_NONE_SO_FAR = "Nobody who has answered knows of a breach that contains this address."


def derive(fields: Mapping[str, Any], moment: datetime) -> Derived:
    """Return the number of breaches, and empty lists where sources count breaches without naming them."""
    services: list[str] = fields.get("services", [])
    found: dict[str, tuple[Any, str | None]] = {"breaches": (len(services), "services")} if services else {}
    if services or fields.get("breaches"):
        found |= dict.fromkeys(("services", "exposed_data"), ([], "breaches"))
    return found


def message(fields: Mapping[str, Any], silent: Sequence[str]) -> str:
    """Return the number of breaches in words, and the silent sources, which may know of others."""
    services: list[str] = fields.get("services", [])
    if count := max(len(services), fields.get("breaches", 0)):
        return _count_services(services, count, fields) + may_be_more(silent)
    if "breaches" not in fields:
        return "Whether a known breach contains this address is not known: no source was asked."
    return _NONE_SO_FAR + may_be_more(silent) if silent else _NONE


def _count_services(services: list[str], count: int, fields: Mapping[str, Any]) -> str:
    found = f"This address is in {'one known breach' if count == 1 else f'{count} known breaches'}"
    if not services:
        return f"{found}, of which no source gives the name."
    sorts = {name: sort for path, sort in _SORTS.items() for name in fields.get(path, [])}
    names = [f"{name} ({sorts[name]})" if name in sorts else name for name in services[:_NAMED]]
    more = count - len(names)
    return f"{found}: {', '.join(names)}" + (f" and {more} more." if more else ".")


KIND = Kind(
    name="breach",
    sources=(
        add_titles(hibp.SOURCE),
        add_titles(xposedornot.SOURCE),
        add_titles(leakcheck.SOURCE),
        hudsonrock.SOURCE,
    ),
    answer=BreachAnswer,
    example="ada@example.com",
    rules={
        "breaches": "max",
        **dict.fromkeys(("services", "spam_lists", "retired", "exposed_data"), "union_by_name"),
    },
    normalise=partial(normalise, "breach"),
    echo="email",
    derive=derive,
    message=message,
    origins={"breaches": ("services",), "message": ("services",)},
    none={"breaches": (0, "services")},
    counted=frozenset({"breaches"}),
    absent=frozenset({"services", "exposed_data"}),
)
