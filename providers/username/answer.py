"""The answer of a user name lookup: the sites on which there is such an account."""

from __future__ import annotations

from models.lookups import Block, LookupAnswer


class Account(Block):
    """An account of that name; nothing says that two accounts are the same person's."""

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
