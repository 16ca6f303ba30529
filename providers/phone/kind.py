"""The kind `phone`: its sources in the order of precedence.

A source that looks a number up takes precedence over the numbering plans.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from providers.phone import abstractphone, numbering
from providers.phone.answer import PhoneAnswer
from providers.phone.number import number
from providers.sources.base import Query
from providers.sources.kind import Kind


def normalise(text: str, pointer: str) -> Query:
    """Return the query for a number with its country code.

    Raises:
        models.errors.Invalid: if `text` is not a phone number.
    """
    found = number(text, pointer)
    return Query("phone", found.e164, found)


def cost(fields: Mapping[str, Any]) -> int:
    """Return one credit for a valid number."""
    return int(fields.get("valid") is True)


KIND = Kind(
    name="phone",
    sources=(abstractphone.SOURCE, numbering.SOURCE),
    answer=PhoneAnswer,
    example="+14155552671",
    normalise=normalise,
    echo="phone",
    price=1,
    cost=cost,
    priced=frozenset({"valid"}),
)
