"""The kind `breach`: its sources in the order of precedence, and how their fields become one answer.

Sources write the name of one breach in several ways; their union counts each breach once.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

from providers.base import Kind
from providers.breach import hibp, hudsonrock, leakcheck, xposedornot
from providers.breach.answer import BreachAnswer
from providers.email.address import normalise

_NAMED = 5
_NONE = "No known breach contains this address."


def derive(fields: Mapping[str, Any], moment: datetime) -> dict[str, tuple[Any, str]]:
    """How many breaches there are, and that in words."""
    services: list[str] = fields.get("services", [])
    if not services:
        return {}
    return {"breaches": (len(services), "services"), "message": (_message(services), "services")}


def _message(services: list[str]) -> str:
    count = "one known breach" if len(services) == 1 else f"{len(services)} known breaches"
    more = len(services) - _NAMED
    names = ", ".join(services[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"This address is in {count}: {names}."


KIND = Kind(
    name="breach",
    sources=(hibp.SOURCE, xposedornot.SOURCE, leakcheck.SOURCE, hudsonrock.SOURCE),
    answer=BreachAnswer,
    example="ada@example.com",
    rules={"services": "union_by_name", "exposed_data": "union_by_name"},
    normalise=partial(normalise, "breach"),
    echo="email",
    derive=derive,
    origins={"breaches": ("services",), "message": ("services",)},
    none={"breaches": (0, "services"), "message": (_NONE, "services")},
    absent=frozenset({"services", "exposed_data"}),
)
