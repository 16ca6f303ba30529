"""The choice of a representation by the `Accept` header (RFC 9110, section 12.5.1)."""

from __future__ import annotations

from typing import NamedTuple

from fastapi import Request


class _Range(NamedTuple):
    """A media range of the header, such as `text/*`, with its quality."""

    type: str
    subtype: str
    quality: float


def choose_media_type(request: Request, *known: str) -> str:
    """Return the known media type that the client prefers.

    Of equal qualities, the one that the client names first is chosen. The first known type is the default:
    for clients that accept any, send no such header, or accept none of these.
    """
    ranges = [_read(one) for one in ",".join(request.headers.getlist("accept")).split(",") if one.strip()]
    best, best_rank = known[0], (0.0, 0)
    for media_type in known:
        rank = _rank(media_type, ranges)
        if rank > best_rank:
            best, best_rank = media_type, rank
    return best


def _read(media_range: str) -> _Range:
    full, *parameters = media_range.lower().split(";")
    main, _, sub = full.strip().partition("/")
    quality = 1.0
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                quality = float(value)
            except ValueError:
                quality = 0.0
    return _Range(main, sub, quality)


def _rank(media_type: str, ranges: list[_Range]) -> tuple[float, int]:
    """Return the quality of a type, by the most precise range, and how early that range stands."""
    main, _, sub = media_type.partition("/")
    for precise in ((main, sub), (main, "*"), ("*", "*")):
        for place, one in enumerate(ranges):
            if (one.type, one.subtype) == precise:
                return one.quality, -place
    return 0.0, 0
