"""The answer of a breach check."""

from __future__ import annotations

from pydantic import Field

from models.lookups.lookups import LookupAnswer


class BreachAnswer(LookupAnswer):
    """The known breaches that an address is in. `services` and `exposed_data` are omitted if there are none.

    Breaches that a source counts without naming them are in `breaches` alone.
    """

    email: str = Field(description="The address.")
    breaches: int = Field(
        description="How many breaches those who answered know it to be in; with `partial` there may be more."
    )
    services: list[str] = Field(
        default_factory=list[str], description="The services that were breached; absent if there are none."
    )
    exposed_data: list[str] = Field(
        default_factory=list[str],
        description="The sorts of data that were exposed; absent if there are none.",
    )
    spam_lists: list[str] = Field(
        description="Those of `services` that are lists of spam recipients, and no service's breach."
    )
    retired: list[str] = Field(description="Those of `services` whose data was withdrawn from the catalogue.")
    message: str = Field(description="The same in words.")
