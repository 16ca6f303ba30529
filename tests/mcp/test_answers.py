"""What tools answer is cut to what a model has room for, and says so."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from api.mcp.answers import MAX_BYTES, prune_answer

LONG: dict[str, dict[str, Any]] = {
    "a list": {"a": [{"n": number, "text": "x" * 50} for number in range(2_000)]},
    "a text": {"a": "x" * 100_000, "b": 1},
    "a nest": {"a": {"b": {"c": [["x" * 90] * 90] * 90}}},
    "names": {f"name{number}": "x" * 100 for number in range(1_000)},
    "wide characters": {"a": "字" * 20_000},
    "long names": {"x" * 20_000: 1},
}


@pytest.mark.parametrize("case", LONG)
def test_an_answer_has_room_whatever_is_in_it(case: str) -> None:
    shown = prune_answer(LONG[case], "ask for less")
    assert len(orjson.dumps(shown)) <= MAX_BYTES
    assert "ask for less" in shown["omitted"]


def test_a_short_answer_loses_what_is_empty_alone() -> None:
    answer = {
        "a": None,
        "b": [],
        "c": {"d": None, "e": {}},
        "f": 0,
        "g": False,
        "h": [None, {"i": ""}],
        "j": "x",
    }
    assert prune_answer(answer, "") == {"f": 0, "g": False, "h": [None, {}], "j": "x"}


def test_what_is_cut_is_counted() -> None:
    shown = prune_answer({"rows": [{"text": "x" * 300} for _ in range(60)], "total": 60}, "")
    assert shown["total"] == 60
    assert shown["omitted"] == [f"rows: {len(shown['rows'])} of 60 items are shown"]
