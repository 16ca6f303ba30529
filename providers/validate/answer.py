"""The answer of a validation."""

from __future__ import annotations

from pydantic import Field

from models.lookups.lookups import Block, LookupAnswer
from providers.email.answer import Validity


class Checks(Block):
    """The checks. Null means unknown, or not checked because the syntax is wrong."""

    syntax: bool | None = Field(description="Whether it is written as an address.")
    domain: bool | None = Field(description="Whether there is such a domain.")
    mx: bool | None = Field(description="Whether its domain has a mail server that can be reached by others.")
    mailbox: bool | None = Field(description="Whether the mailbox was found. Null: nobody was asked for it.")
    disposable: bool | None = Field(description="Whether it is of a provider of throw-away addresses.")
    role: bool | None = Field(description="Whether it is a function's rather than a person's.")
    free_provider: bool | None = Field(description="Whether it is of a free provider.")


class ValidateAnswer(LookupAnswer):
    """The verdict on whether an address can receive mail, with the reason."""

    email: str = Field(description="The address as it was sent.")
    validity: Validity = Field(description="Whether it can receive mail.")
    message: str = Field(description="The same in words.")
    checks: Checks = Field(description="What was looked at.")
