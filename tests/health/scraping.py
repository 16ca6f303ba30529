"""What `/metrics` says."""

from __future__ import annotations

import re
from collections.abc import Mapping

from services.figure_writer import FigureWriter
from tests.api_server import Api

SERIES = re.compile(r"^(\w+)(\{[^}]*\})? (\S+)$", re.MULTILINE)


async def scraped(api: Api) -> dict[str, float]:
    """The series of `/metrics`, once this process has written what it counted."""
    await FigureWriter(api.services.database).write()
    text = (await api.http.get("/metrics")).text
    return {f"{name}{labels}": float(value) for name, labels, value in SERIES.findall(text)}


def grown(before: Mapping[str, float], after: Mapping[str, float], series: str) -> float:
    """By how much a series has grown."""
    return after.get(series, 0) - before.get(series, 0)
