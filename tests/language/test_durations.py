"""Durations: how people write them, and what is none."""

import pytest

from language.durations import seconds_of

DURATIONS: dict[str, float] = {
    "45s": 45, "5m": 300, "1h30m": 5400, "1h 30m": 5400, "2d": 172_800, "1w": 604_800, "1.5h": 5400, "0m": 0,
    " 5m ": 300, "PT5M": 300, "PT1H30M": 5400, "P1D": 86_400, "P1DT12H": 129_600, "P2W": 1_209_600,
    "PT0.5S": 0.5,
}  # fmt: skip


@pytest.mark.parametrize("text", DURATIONS)
def test_a_duration_is_so_many_seconds(text: str) -> None:
    assert seconds_of(text) == DURATIONS[text]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "5",
        "m",
        "5 minutes",
        "-5m",
        "30m1h",
        "5M",
        "P",
        "PT",
        "P1DT",
        "P1M",
        "P1Y",
        "PT5",
        "pt5m",
        "٥m",
        "5m\n5m",
    ],
)
def test_what_is_no_duration_is_none(text: str) -> None:
    assert seconds_of(text) is None
