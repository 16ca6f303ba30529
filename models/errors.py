"""The errors of the domain. Each is a class with a stable code, so that no code has to read its message.

`api/errors.py` turns them into problem documents, activities turn them into errors of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FieldError:
    """One error in the input.

    Attributes:
        pointer: JSON pointer into the body (`/steps/2/config/expression`), empty for the body as a whole.
        code: stable, snake_case.
        message: what is wrong and what would be right, without the offending value.
        parameter: the query parameter or header that is wrong, if it is not the body.
        row: of a CSV file; the header is row 1.
        column: of a CSV file.
    """

    pointer: str
    code: str
    message: str
    parameter: str | None = None
    row: int | None = None
    column: str | None = None


def describe_errors(errors: Sequence[FieldError]) -> str:
    """Return one sentence with the place and the message of the first three errors."""
    described = [f"{one.parameter or one.pointer or '/'}: {one.message}" for one in errors[:3]]
    return "; ".join([*(one.removesuffix(".") for one in described[:-1]), *described[-1:]])


class DomainError(Exception):
    """The base of all errors that a rule of the domain raises.

    Attributes:
        code: stable, snake_case, for programs.
        message: for people.
        details: further fields of the answer (`required`, `balance`, `run_id` …).
    """

    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details


class Invalid(DomainError):
    """The input is invalid; `errors` lists all errors at once."""

    def __init__(self, errors: Sequence[FieldError], code: str = "invalid_input") -> None:
        super().__init__(code, describe_errors(errors))
        self.errors = list(errors)


class NotFound(DomainError):
    """The object does not exist or belongs to another account: both answer alike."""

    def __init__(self, noun: str) -> None:
        super().__init__("not_found", f"There is no such {noun}.")


class Conflict(DomainError):
    """The current state of an object does not allow the request."""


class Unauthenticated(DomainError):
    """The request has no credential, or an invalid one."""


class Forbidden(DomainError):
    """The credential is valid but does not permit the request."""


class InsufficientCredits(DomainError):
    """The balance does not cover the price."""

    def __init__(self, required: int, balance: int) -> None:
        super().__init__(
            "insufficient_credits",
            f"This needs {required} credits; the balance is {balance}.",
            required=required,
            balance=balance,
        )


class VersionMismatch(DomainError):
    """The object has changed since the version that the client names."""

    def __init__(self, current: int) -> None:
        super().__init__("version_mismatch", f"The current version is {current}.", version=current)


class RateLimited(DomainError):
    """Too many requests in the window.

    Attributes:
        retry_after: whole seconds until the next request can pass.
        headers: the `RateLimit` headers of the answer.
    """

    def __init__(self, retry_after: int, headers: dict[str, str], reason: str = "Too many requests.") -> None:
        super().__init__("rate_limited", f"{reason} Try again in {retry_after} s.")
        self.retry_after = retry_after
        self.headers = headers


class TooManyStreams(DomainError):
    """The account has as many open streams and waits as it may have."""

    def __init__(self, limit: int) -> None:
        message = f"The account has {limit} streams and waits open, and may have no more: close some of them."
        super().__init__("too_many_streams", message, limit=limit)


class Unavailable(DomainError):
    """A component that the request needs is unavailable for now."""

    def __init__(self, code: str, message: str, *, retry_after: int = 1, **details: Any) -> None:
        super().__init__(code, message, **details)
        self.retry_after = retry_after
