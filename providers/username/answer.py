"""The answer of a user name lookup: the sites that have such an account."""

from __future__ import annotations

from pydantic import Field

from models.lookups.lookups import Block, LookupAnswer


class Account(Block):
    """An account of that name. Two accounts of the same name may belong to different people."""

    site: str = Field(description="The site's name.")
    url: str = Field(description="The account's page.")
    category: str = Field(description="What sort of site it is.")
    evidence: str = Field(description="Why it is taken for an account.")


class UsernameAnswer(LookupAnswer):
    """The sites on which a user name is taken; `checked` is how many sites reported whether it is."""

    username: str = Field(description="The name.")
    total: int | None = Field(
        description="How many accounts were found; null if none was, and not every site answered."
    )
    found: list[Account] = Field(description="The accounts.")
    checked: int = Field(description="How many sites said whether there is one.")
