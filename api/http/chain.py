"""The count of the runs that led to a request, and the refusal of a chain that is too long."""

from __future__ import annotations

from fastapi import Request

from models.errors import Conflict, FieldError, Invalid
from models.runs import child_runs
from outbound import chain


def depth_of(request: Request) -> int | None:
    """Return how many runs are above one that this request starts; None if no run sent it.

    Raises:
        Conflict: `chain_too_deep`.
        Invalid: the header is not a number.
    """
    try:
        depth = chain.read_depth(request.headers.get(chain.HEADER))
    except ValueError:
        message = (
            f"{chain.HEADER} is a number of runs, such as 1; leave it out where no run sends the request."
        )
        raise Invalid([FieldError("", "invalid_format", message, parameter=chain.HEADER)]) from None
    if depth is not None and child_runs.is_too_deep(depth):
        raise Conflict("chain_too_deep", child_runs.TOO_DEEP)
    return depth
