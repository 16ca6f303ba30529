"""docs/monitors.md says what 50 domains an hour cost in a month, and take of each source's limit."""

from __future__ import annotations

import re

import pytest

from models.lookups.source_quotas import share_of_waiting
from providers.registry import KINDS
from providers.sources.base import RemoteSource
from settings import Rate
from tests.stacks import ROOT

PAGE = (ROOT / "docs" / "monitors.md").read_text()
SECTION = PAGE.partition("## What a monitor costs\n")[2].partition("\n## ")[0]
MONTH = 30 * 86_400
RUNS = MONTH // 3600
REQUESTS = 50 * RUNS
SOURCES = {one.spec.name: one.spec.rates for one in KINDS["domain"].sources if isinstance(one, RemoteSource)}
ROWS = {
    name: re.split(r" *\| *", row)[2:5]
    for row in re.findall(r"^\| `.*", SECTION, re.MULTILINE)
    for name in re.findall(r"`(\w+)`", row)
}


def share_of(rates: tuple[Rate, ...]) -> float:
    """Return what the monitor takes of a source's limit: of the narrowest of its windows."""
    return max(REQUESTS * rate.seconds / (rate.requests * MONTH) for rate in rates)


def test_every_source_of_a_domain_has_a_row() -> None:
    assert ROWS.keys() == SOURCES.keys()


@pytest.mark.parametrize("name", SOURCES)
def test_a_row_has_the_limit_the_requests_and_the_share_of_the_source(name: str) -> None:
    limit, requests, share = ROWS[name]
    rates = SOURCES[name]
    shown = ", ".join(f"{rate.requests} in {rate.seconds:,} s" for rate in rates) or "none"
    assert limit.startswith(shown)
    assert requests == f"{REQUESTS:,}"
    assert share.strip("*") == (f"{share_of(rates):.0%}".replace("%", " %") if rates else "–")


def test_the_text_has_the_credits_of_a_month() -> None:
    assert f"{REQUESTS:,} credits" in SECTION


def test_the_text_has_what_the_narrowest_source_answers_in_a_day() -> None:
    [daily] = [rate for rate in SOURCES["virustotaldomain"] if rate.seconds == 86_400]
    answered = share_of_waiting(daily)
    assert answered // 50 == 8
    assert f"answers {answered} of them: about eight runs a day" in " ".join(SECTION.split())
