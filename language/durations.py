"""Durations as people write them: `5m`, `1h30m`, `2d`, or ISO 8601's `PT5M`."""

from __future__ import annotations

import re

_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,6})?"


def _parts(units: str) -> str:
    return "".join(f"(?:(?P<{unit.lower()}>{_NUMBER}){unit} ?)?" for unit in units)


_PLAIN = re.compile(_parts("wdhms"))
# Years and months have no fixed length.
_ISO = re.compile(f"P{_parts('WD')}(?:T(?=[0-9]){_parts('HMS')})?".replace(" ?", ""))


def seconds_of(text: str) -> float | None:
    """Parse a duration; None if the text is none."""
    found = _ISO.fullmatch(text.strip()) or _PLAIN.fullmatch(text.strip())
    given = {unit: float(number) for unit, number in found.groupdict().items() if number} if found else {}
    return sum(number * _SECONDS[unit] for unit, number in given.items()) if given else None
