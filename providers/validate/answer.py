"""The answer of a validation."""

from __future__ import annotations

from models.lookups import Block, LookupAnswer
from providers.email.answer import Validity


class Checks(Block):
    """What was looked at. Null is not known, or not looked at since the syntax is wrong already."""

    syntax: bool | None
    mx: bool | None
    disposable: bool | None
    role: bool | None
    free_provider: bool | None


class ValidateAnswer(LookupAnswer):
    """Whether an address can receive mail, and why that is thought."""

    email: str
    validity: Validity
    message: str
    checks: Checks
