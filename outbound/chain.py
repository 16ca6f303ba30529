"""The header that tells how many runs have led to a request of this service.

A run can start another by an event, or by a request, that goes to an ingest URL of this service. Such runs
are counted by the header, so that a workflow whose event starts it again ends after a few runs. A stranger
who sends the header only shortens the chain of what they start.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

HEADER = "Vedette-Chain"
"""Its value is the number of runs that have led to the request."""
_VALUE = re.compile("[0-9]{1,3}")
_STARTS_RUNS = "/api/workflows/"


def may_start_runs(url: str) -> bool:
    """Say whether a URL may be one of this service that starts runs, under any of its names."""
    return _STARTS_RUNS in url


def with_depth(headers: Mapping[str, str], depth: int) -> dict[str, str]:
    """Give the headers of a request that continues a chain; one of this name in them is replaced."""
    others = {name: value for name, value in headers.items() if name.lower() != HEADER.lower()}
    return {**others, HEADER: str(depth)}


def read_depth(value: str | None) -> int | None:
    """Read the header; None if there is none.

    Raises:
        ValueError: it is no number.
    """
    if value is None:
        return None
    if not _VALUE.fullmatch(value):
        raise ValueError(value)
    return int(value)
