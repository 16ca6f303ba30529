"""Errors that belong to HTTP itself; those of the rules of a noun are `models.errors`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.exceptions import HTTPException

from models import errors


class Problem(HTTPException):
    """An error that belongs to HTTP itself, not to a rule of a noun."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        headers: Mapping[str, str] | None = None,
        errors: Sequence[errors.FieldError] = (),
    ) -> None:
        super().__init__(status, message, headers)
        self.code = code
        self.errors = list(errors)
