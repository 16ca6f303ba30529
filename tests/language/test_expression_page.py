"""docs/expressions.md says what is so: its examples are evaluated, its tables name all that there is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from language import expressions
from language.expressions.functions import Specified
from language.expressions.library import FUNCTIONS
from language.expressions.times import _CODES, _UNITS  # pyright: ignore[reportPrivateUsage]

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "expressions.md").read_text()
[DATA] = [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)]
EXAMPLES: list[tuple[str, str]] = re.findall(r"`([^`]+)` → `([^`]+)`", PAGE)


@pytest.mark.parametrize(("text", "result"), EXAMPLES)
def test_every_example_gives_what_the_page_says(text: str, result: str) -> None:
    found: Any = expressions.compile(text.replace("\\|", "|")).evaluate(DATA)
    assert found == json.loads(result)


def named(text: str) -> set[str]:
    return set(re.findall(r"\b([a-z_0-9]+)\(", text))


def test_every_function_has_a_row() -> None:
    rows = re.findall(r"^\| (`[a-z_0-9]+\(.*?) \|", PAGE, re.MULTILINE)
    assert FUNCTIONS.keys() - named(" ".join(rows)) == set()


def test_every_function_that_jmespath_lacks_has_an_example() -> None:
    more = FUNCTIONS.keys() - Specified.FUNCTION_TABLE.keys()
    assert more - named(" ".join(text for text, _ in EXAMPLES)) == set()


def test_every_unit_and_code_of_a_time_is_listed() -> None:
    times = PAGE.partition("### Times")[2].partition("### Encoded")[0]
    assert {f"%{code}" for code in _CODES} == set(re.findall(r"`(%:?.)`", times))
    assert set(_UNITS) <= set(re.findall(r"`'([a-z]+)'`", times))
