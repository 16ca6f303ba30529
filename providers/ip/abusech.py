"""What the services of abuse.ch share: one Auth-Key for all, and how they say what became of a question."""

from __future__ import annotations

from typing import Any

from providers.base import SourceError

ACCOUNT = "urlhaus"
"""The source whose key serves all of them."""

LICENCE = "abuse.ch terms of use"
_NOTHING = frozenset({"no_results", "no_result"})
_REJECTED = frozenset({"invalid_host", "illegal_search_term"})


def known(raw: Any) -> bool:
    """Whether an answer, which comes with status 200 always, has something in it.

    Raises:
        SourceError: `auth_failed` for a key that abuse.ch does not know, `rejected` for a query that it does
            not take, `bad_response` for other refusals.
    """
    status = raw["query_status"]
    if status == "unknown_auth_key":
        raise SourceError("auth_failed", status)
    if status in _REJECTED:
        raise SourceError("rejected", status)
    if status != "ok" and status not in _NOTHING:
        raise SourceError("bad_response", "query_refused")
    return status == "ok"
