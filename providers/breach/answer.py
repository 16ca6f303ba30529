"""The answer of a breach check."""

from __future__ import annotations

from pydantic import Field

from models.lookups import LookupAnswer


class BreachAnswer(LookupAnswer):
    """The known breaches that an address is in. `services` and `exposed_data` are there if there are any."""

    email: str
    breaches: int
    services: list[str] = Field(default_factory=list[str])
    exposed_data: list[str] = Field(default_factory=list[str])
    message: str
