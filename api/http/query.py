"""Query parameters that a route does not know: a typing error must not pass for a request without it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice

from fastapi.dependencies.models import Dependant

from language.findings import suggestion
from models.errors import FieldError

# Of an event the query is data, and to links in messages others append parameters of their own.
_OPEN = ("/api/workflows/ingest/", "/api/workflows/resume/")
_MOST_NAMED, _LONGEST_NAME = 20, 100


def is_checked(path: str) -> bool:
    """Tell whether a path, or the template of one, refuses parameters that its route does not know."""
    return path.startswith("/api/") and not path.startswith(_OPEN)


def names_of(dependant: Dependant) -> frozenset[str]:
    """Return the query parameters that a route and what it depends on declare."""
    own = frozenset(field.alias for field in dependant.query_params)
    return own.union(*map(names_of, dependant.dependencies))


def find_unknown(given: Iterable[str], known: Collection[str]) -> list[FieldError]:
    """Return an error for each parameter that is not known, up to 20 of them."""
    return [_unknown(name, known) for name in islice((n for n in given if n and n not in known), _MOST_NAMED)]


def _unknown(name: str, known: Collection[str]) -> FieldError:
    there_are = f" Parameters are: {', '.join(sorted(known))}." if known else " This path takes none."
    hint = suggestion(name, known) or there_are
    message = f"There is no such parameter here.{hint}"
    return FieldError("", "unknown_parameter", message, parameter=name[:_LONGEST_NAME])
