"""The answer of a user name lookup: the sites on which there is such an account."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from models.lookups import LookupAnswer


class Account(BaseModel):
    """An account of that name; nothing says that two accounts are the same person's."""

    model_config = ConfigDict(extra="forbid")

    site: str
    url: str
    category: str
    evidence: str


class UsernameAnswer(LookupAnswer):
    """Where a user name is taken; `checked` is how many sites said whether it is."""

    username: str
    total: int | None
    found: list[Account]
    checked: int
