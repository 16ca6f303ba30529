"""The depth of JSON, told from its text as from its value."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from language.json_text import MAX_DEPTH, is_too_deep

CASES = {
    "as deep as may be": (b"[" * 100 + b"]" * 100, False),
    "one deeper": (b"[" * 101 + b"]" * 101, True),
    "objects, too": (b'{"a":' * 101 + b"1" + b"}" * 101, True),
    "many beside each other": (b"[" + b",".join([b"[[]]"] * 1_000) + b"]", False),
    "brackets in a string": (orjson.dumps(["[{" * 500, '"[' * 500, "\\[" * 500]), False),
    "nothing": (b"", False),
}


@pytest.mark.parametrize(("text", "deep"), CASES.values(), ids=CASES)
def test_the_text_tells_whether_json_is_too_deep(text: bytes, deep: bool) -> None:
    assert is_too_deep(text) is deep


def depth_of(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if parts is None else 1 + max(map(depth_of, parts), default=0)


@given(
    st.recursive(
        st.text('[]{}"\\a') | st.integers(0, 9),
        lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text('[{"\\'), part, max_size=3),
    ),
    st.integers(MAX_DEPTH - 4, MAX_DEPTH + 1),
)
def test_any_value_is_too_deep_by_its_text_as_by_itself(value: Any, around: int) -> None:
    for _ in range(around):
        value = [value]
    assert is_too_deep(orjson.dumps(value)) is (depth_of(value) > MAX_DEPTH)
