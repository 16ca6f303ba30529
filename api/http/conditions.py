"""Conditional requests: `If-Match` names the version that a change is meant for."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Header

from models.errors import FieldError, Invalid

IfMatch = Annotated[
    str | None,
    Header(description='The ETag that was read, `"v3"`: refused with 412 if it is not the current one.'),
]
_ETAG = re.compile(r'"v(\d{1,9})"')


def expected_version(if_match: str | None) -> int | None:
    """Return the version that the header names; None without one, or with `*`.

    Raises:
        Invalid: it is not an ETag of ours.
    """
    if if_match is None or if_match == "*":
        return None
    match = _ETAG.fullmatch(if_match)
    if match is None:
        message = 'If-Match takes one ETag, such as "v3", or *.'
        raise Invalid([FieldError("", "invalid_etag", message, parameter="If-Match")])
    return int(match[1])
