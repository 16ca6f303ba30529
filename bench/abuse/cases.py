"""The cases of abuse, and the tally of their checks."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import NamedTuple

from bench.abuse.target import Target


class Tally:
    """The checks of one case: how many held, which did not, and further figures.

    Attributes:
        broken: the checks that did not hold, each with what was found.
        figures: by name, as they are printed.
    """

    def __init__(self) -> None:
        self.tried = self.held = 0
        self.broken: list[str] = []
        self.figures: dict[str, str] = {}
        self._slowest = 0.0

    def check(self, held: bool, what: str, seen: object = "") -> None:
        """Count one check that must hold; `seen` is what was found instead."""
        self.tried += 1
        self.held += held
        if not held:
            self.broken.append(f"{what}: {seen}" if seen != "" else what)

    @contextmanager
    def timed(self) -> Generator[None]:
        """Time the block; the slowest time is a figure."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._slowest = max(self._slowest, time.perf_counter() - start)
            self.figures["slowest"] = milliseconds(self._slowest)

    @contextmanager
    def memory(self, target: Target, most_mib: int) -> Generator[None]:
        """Compare the memory of API and worker before and after the block; it may rise by `most_mib`."""
        before = target.resident_mib()
        yield
        rise = {name: size - before.get(name, size) for name, size in target.resident_mib().items()}
        self.figures["RSS rise"] = ", ".join(f"{name} {size} MiB" for name, size in rise.items())
        self.check(max(rise.values()) < most_mib, f"memory rises less than {most_mib} MiB", rise)


Attack = Callable[[Target, Tally], Awaitable[None]]


class Case(NamedTuple):
    """One kind of abuse."""

    name: str
    what: str
    attack: Attack


CASES: dict[str, Case] = {}
"""All cases, by name."""


def case(name: str, what: str) -> Callable[[Attack], Attack]:
    """Register an attack under a name, with a short description."""

    def register(attack: Attack) -> Attack:
        assert name not in CASES, name
        CASES[name] = Case(name, what, attack)
        return attack

    return register


async def tried(case: Case, target: Target) -> Tally:
    """Run a case; an exception counts as a failed check."""
    tally = Tally()
    try:
        await case.attack(target, tally)
    except Exception as error:
        tally.check(False, "the case runs to its end", f"{type(error).__name__}: {error}")
    return tally


def milliseconds(seconds: float) -> str:
    """Return a duration in the form of the table."""
    return f"{seconds * 1000:,.0f} ms"
