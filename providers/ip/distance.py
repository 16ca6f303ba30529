"""The distance between two places."""

from __future__ import annotations

from math import asin, cos, radians, sin, sqrt

_EARTH_KM = 6371.0


def kilometres(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Return the distance between two places along the ground, in kilometres.

    Args:
        one: latitude and longitude, in degrees.
        other: the same.
    """
    (north, east), (other_north, other_east) = ((radians(a), radians(b)) for a, b in (one, other))
    half_north, half_east = (other_north - north) / 2, (other_east - east) / 2
    chord = sin(half_north) ** 2 + cos(north) * cos(other_north) * sin(half_east) ** 2
    return 2 * _EARTH_KM * asin(sqrt(min(1.0, chord)))
