"""The kind `breach`: its sources in the order of precedence, and how their fields become one answer.

Sources write the name of one breach in several ways; by its title in the catalogue, it counts once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from providers.base import Derived, Kind
from providers.breach import hibp, hudsonrock, leakcheck, xposedornot
from providers.breach.answer import BreachAnswer
from providers.breach.catalogue import titled
from providers.email.address import normalise

_NAMED = 5
_NONE = "No known breach contains this address."


def derive(fields: Mapping[str, Any], moment: datetime) -> Derived:
    """How many breaches there are."""
    services: list[str] = fields.get("services", [])
    if not services:
        return {}
    return {"breaches": (len(services), "services")}


def message(fields: Mapping[str, Any], silent: Sequence[str]) -> str:
    """How many breaches there are in words; and who has not answered, and so may know of others."""
    if fields.get("services"):
        more = f" There may be more: no answer from {_listed(silent)}." if silent else ""
        return _named(fields["services"]) + more
    if fields.get("breaches") == 0:
        return _NONE
    reason = f"no answer from {_listed(silent)}" if silent else "no source was asked that knows all breaches"
    return f"Whether a known breach contains this address is not known: {reason}."


def _listed(names: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def _named(services: list[str]) -> str:
    count = "one known breach" if len(services) == 1 else f"{len(services)} known breaches"
    more = len(services) - _NAMED
    names = ", ".join(services[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"This address is in {count}: {names}."


KIND = Kind(
    name="breach",
    sources=(titled(hibp.SOURCE), titled(xposedornot.SOURCE), titled(leakcheck.SOURCE), hudsonrock.SOURCE),
    answer=BreachAnswer,
    example="ada@example.com",
    rules={"services": "union_by_name", "exposed_data": "union_by_name"},
    normalise=partial(normalise, "breach"),
    echo="email",
    derive=derive,
    message=message,
    origins={"breaches": ("services",), "message": ("services",)},
    none={"breaches": (0, "services")},
    absent=frozenset({"services", "exposed_data"}),
)
