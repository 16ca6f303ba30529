"""Query parameters: strict numbers, and unknown names, which are refused so that none is silently ignored."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Any

from fastapi.dependencies.models import Dependant
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from language.findings import suggestion
from models.errors import FieldError

# The query of an event is data, and readers of messages append their own parameters to links.
_OPEN = ("/api/workflows/ingest/", "/api/workflows/resume/")
_MOST_NAMED, _LONGEST_NAME = 20, 100
_DIGITS = re.compile("-?[0-9]+")


def _refuse_other_spellings(given: Any) -> Any:
    # Pydantic would read 1_0 and 10.0 as 10.
    if isinstance(given, str) and not _DIGITS.fullmatch(given):
        raise PydanticCustomError("wrong_type", "Must be an integer.")
    return given


Digits = BeforeValidator(_refuse_other_spellings)
"""Reads an integer of a query. It stands after `Query(…)`, so that its bounds are those of an integer."""


def is_checked(path: str) -> bool:
    """Return whether a path, or the template of one, refuses unknown parameters."""
    return path.startswith("/api/") and not path.startswith(_OPEN)


def names_of(dependant: Dependant) -> frozenset[str]:
    """Return the query parameters that a route and its dependencies declare."""
    own = frozenset(field.alias for field in dependant.query_params)
    return own.union(*map(names_of, dependant.dependencies))


def find_unknown(given: Iterable[str], known: Collection[str]) -> list[FieldError]:
    """Return an error for each unknown parameter, up to 20 of them."""
    return [_unknown(name, known) for name in islice((n for n in given if n and n not in known), _MOST_NAMED)]


def find_nul(given: Iterable[tuple[str, str]]) -> list[FieldError]:
    """Return an error for each parameter with a NUL character, which Postgres cannot take, up to 20."""
    names = dict.fromkeys(name for name, value in given if "\0" in value)
    message = "The value holds a NUL character, which is not allowed."
    return [
        FieldError("", "nul_character", message, parameter=name[:_LONGEST_NAME])
        for name in islice(names, _MOST_NAMED)
    ]


def _unknown(name: str, known: Collection[str]) -> FieldError:
    there_are = f" Parameters are: {', '.join(sorted(known))}." if known else " This path takes none."
    hint = suggestion(name, known) or there_are
    message = f"There is no such parameter here.{hint}"
    return FieldError("", "unknown_parameter", message, parameter=name[:_LONGEST_NAME])
