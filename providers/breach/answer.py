"""The answer of a breach check."""

from __future__ import annotations

from pydantic import Field

from models.lookups import LookupAnswer


class BreachAnswer(LookupAnswer):
    """The known breaches that an address is in. `services` and `exposed_data` are there if there are any."""

    email: str = Field(description="The address.")
    breaches: int | None = Field(
        description="How many known breaches it is in; null if none is known, and not everyone has answered."
    )
    services: list[str] = Field(
        default_factory=list[str], description="The services that were breached; absent if there are none."
    )
    exposed_data: list[str] = Field(
        default_factory=list[str],
        description="The sorts of data that were exposed; absent if there are none.",
    )
    message: str = Field(description="The same in words.")
