"""The kind `websearch`: its sources in the order of precedence, and how their results become one list."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from models.errors import FieldError, Invalid
from providers.sources.base import Query
from providers.sources.kind import Derived, Kind, one_credit
from providers.websearch import brave, marginalia, searxng, wikipedia
from providers.websearch.answer import WebSearchAnswer

SHOWN, LIMIT = 20, 50
"""The default and the greatest number of results of an answer."""

_LONGEST = 400  # the limit of the engines


def normalise(text: str, pointer: str) -> Query:
    """Return the query with single spaces between its words.

    Raises:
        Invalid: if `text` is empty, too long, or has control characters in it.
    """
    query = " ".join(unicodedata.normalize("NFC", text).split())
    if not 0 < len(query) <= _LONGEST or any(unicodedata.category(one) == "Cc" for one in query):
        message = (
            f"Give a query of 1 to {_LONGEST} characters without control characters, such as Ada Lovelace."
        )
        raise Invalid([FieldError(pointer, "invalid_query", message)])
    return Query("websearch", query)


def derive(fields: Mapping[str, Any], moment: datetime) -> Derived:
    """Return the number of pages found, if no engine reports a total."""
    return {"total": (len(fields["results"]), "results")} if "results" in fields else {}


def cut_results(answer: dict[str, Any], limit: int) -> dict[str, Any]:
    """Return the answer with its first `limit` results; `total` stays as the engines report it."""
    return answer | {"results": answer["results"][:limit]} if "results" in answer else answer


KIND = Kind(
    name="websearch",
    sources=(searxng.SOURCE, brave.SOURCE, wikipedia.SOURCE, marginalia.SOURCE),
    answer=WebSearchAnswer,
    example="Ada Lovelace",
    rules={"results": "union_by_url", "total": "max"},
    normalise=normalise,
    echo="query",
    derive=derive,
    origins={"total": ("results",)},
    none={"total": (0, "results")},
    price=1,
    cost=one_credit,
)
