"""The header that counts the runs that led to a request of this service.

A run can start another by an event, or by a request, to an ingest URL of this service. The header counts such
runs, so that a workflow whose event starts it again ends after a few runs. A stranger who sends the header
only shortens the chain of their own runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

HEADER = "Vedette-Chain"
"""The header's name. Its value is the number of runs that led to the request."""
_VALUE = re.compile("[0-9]{1,3}")
_STARTS_RUNS = "/api/workflows/"


def may_start_runs(url: str) -> bool:
    """Return whether a URL may start runs of this service, under any of its host names."""
    return _STARTS_RUNS in url


def with_depth(headers: Mapping[str, str], depth: int) -> dict[str, str]:
    """Return the headers of a request that continues a chain; an existing chain header is replaced."""
    others = {name: value for name, value in headers.items() if name.lower() != HEADER.lower()}
    return {**others, HEADER: str(depth)}


def read_depth(value: str | None) -> int | None:
    """Return the depth in the header; None without a header.

    Raises:
        ValueError: it is not a number.
    """
    if value is None:
        return None
    if not _VALUE.fullmatch(value):
        raise ValueError(value)
    return int(value)
