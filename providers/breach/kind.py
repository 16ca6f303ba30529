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
from providers.wording import may_be_more

_NAMED = 5
_NONE = "No known breach contains this address."
_NONE_SO_FAR = "Nobody who has answered knows of a breach that contains this address."


def derive(fields: Mapping[str, Any], moment: datetime) -> Derived:
    """How many breaches there are."""
    services: list[str] = fields.get("services", [])
    if not services:
        return {}
    return {"breaches": (len(services), "services")}


def message(fields: Mapping[str, Any], silent: Sequence[str]) -> str:
    """How many breaches there are in words; and who has not answered, and so may know of others."""
    if fields.get("services"):
        return _named(fields["services"]) + may_be_more(silent)
    if "breaches" not in fields:
        return "Whether a known breach contains this address is not known: no source was asked."
    return _NONE_SO_FAR + may_be_more(silent) if silent else _NONE


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
    counted=frozenset({"breaches"}),
    absent=frozenset({"services", "exposed_data"}),
)
