"""A monitor whose sources allow one request a second, and 25 an hour; see `bench.monitors`."""

from __future__ import annotations

import bisect
import contextlib
import math
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine
from typing import Any

from aiohttp import web

from bench.bulk_streams import only_from
from bench.limiting import serving_with
from bench.stack import Runners, Stack, nothing, running

_ON_THE_WAY = 0.05
SOURCES = ("leakcheck", "xposedornot")

Run = Callable[[Stack, list[str]], Coroutine[Any, Any, tuple[float, int]]]
"""Runs a monitor of these addresses; returns its seconds, and the number of targets with a silent source."""


class Breaches:
    """Both sources, on this machine: they know no breach, and record when they are asked."""

    def __init__(self) -> None:
        self.asked = defaultdict[str, list[float]](list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer as the source of the path."""
        if request.path == "/api/public":
            self.asked["leakcheck"].append(time.monotonic())
            return web.json_response({"success": True, "found": 0, "fields": [], "sources": []})
        self.asked["xposedornot"].append(time.monotonic())
        return web.json_response({"ExposedBreaches": None})


def print_pace(run: Run, targets: int, hour: int) -> None:
    """Print how often sources are asked about this many targets, and how long that takes.

    Args:
        run: runs a monitor.
        targets: the number of e-mail addresses.
        hour: the seconds of an hour.
    """
    rates = {"leakcheck": (1, 1), "xposedornot": (25, hour)}
    breaches = Breaches()
    with Runners.made() as runners, contextlib.ExitStack() as stack_of:
        served = serving_with(breaches.answer)
        url = runners.plain.run(served.__aenter__())
        stack_of.callback(lambda: runners.plain.run(served.__aexit__(None, None, None)))
        environ = only_from(url, SOURCES) | {
            f"VEDETTE_PROVIDER_{name.upper()}_RATE": f"{count}/{seconds}"
            for name, (count, seconds) in rates.items()
        }
        stack = stack_of.enter_context(running(runners, nothing, **environ))
        emails = [f"person-{number}@example.com" for number in range(targets)]
        seconds, silent = runners.plain.run(run(stack, emails))
    print(f"\n{targets} e-mail addresses, an hour lasts {hour} s: {seconds:.1f} s; not heard of {silent}")
    print(f"{'':14}{'asked':>6}{'most in a window':>18}{'of':>4}{'seconds':>9}{'least':>8}")
    for name, moments in breaches.asked.items():
        print(_line(name, moments, rates[name], targets), flush=True)


def _line(name: str, moments: list[float], rate: tuple[int, int], targets: int) -> str:
    count, window = rate
    # Places are given when requests are sent; some take a little longer on their way.
    ends = (bisect.bisect_left(moments, at + window - _ON_THE_WAY) for at in moments)
    most = max(end - place for place, end in enumerate(ends))
    # A fifth of a window is reserved for callers that cannot wait.
    least = (math.ceil(targets / max(1, count * 4 // 5)) - 1) * window
    spent = moments[-1] - moments[0]
    return f"{name:14}{len(moments):6}{most:18}{count:4}{spent:9.1f}{least:8.1f}"
