"""What a body may be."""

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.http.json_body import MAX_BODY_BYTES, parse_json
from api.problems import Problem
from language.json_text import MAX_DEPTH

INTEGERS = st.integers(min_value=-(2**63), max_value=2**64 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=50,
)

REFUSED = {
    b"": "invalid_json",
    b"{": "invalid_json",
    b'{"a": 1,}': "invalid_json",
    b"{'a': 1}": "invalid_json",
    b"NaN": "invalid_json",
    b"[Infinity]": "invalid_json",
    b'{"a": 1e999}': "invalid_json",
    b"-1e999": "invalid_json",
    b'"\\ud800"': "invalid_json",
    b'"\\udc00\\ud800"': "invalid_json",
    b'"\xff"': "invalid_json",
    b'"\xed\xa0\x80"': "invalid_json",
    b'"\x00"': "invalid_json",
    b"\xef\xbb\xbf1": "invalid_json",
    b'{"a": 1} 2': "invalid_json",
    b'"\\u0000"': "invalid_text",
    b'{"a\\u0000": 1}': "invalid_text",
    b'"\\\\\\u0000"': "invalid_text",
    b"18446744073709551616": "number_out_of_range",
    b'{"a": [-9223372036854775809]}': "number_out_of_range",
    b"9" * 5000: "number_out_of_range",
    b"-" + b"9" * 5000: "number_out_of_range",
    b"[" * 101 + b"]" * 101: "too_deep",
    b'{"a":' * 101 + b"1" + b"}" * 101: "too_deep",
    b"[" * 100_000: "too_deep",
    b'[{"x":' * 200_000: "too_deep",
}
ACCEPTED = {
    b"18446744073709551615": 2**64 - 1,
    b"-9223372036854775808": -(2**63),
    b"12345678901234567890.5": 12345678901234567890.5,
    b"1e18": 1e18,
    b"1E+0000000000000000000000000000005": 1e5,
    b"1e-99999999999999999999": 0.0,
    b'"12345678901234567890123"': "12345678901234567890123",
    b'"\\\\u0000"': "\\u0000",
    b'"\\ud83d\\ude00"': "😀",
    b'{"a": 1, "a": 2}': {"a": 2},
    b" \n[ ]\t": [],
}


@pytest.mark.parametrize("raw", REFUSED, ids=lambda raw: repr(raw[:30]))
def test_what_is_not_strict_json_is_refused_with_its_code(raw: bytes) -> None:
    with pytest.raises(Problem) as refusal:
        parse_json(raw)
    assert (refusal.value.status_code, refusal.value.code) == (400, REFUSED[raw])


@pytest.mark.parametrize(
    ("raw", "place"), [(b'{"name":"ab\xff"}', 11), (b'"\xc3\xa9\xed\xa0\x80"', 3), (b"\xff\xfe1\0", 0)]
)
def test_a_byte_that_is_not_utf_8_is_named(raw: bytes, place: int) -> None:
    with pytest.raises(Problem) as refusal:
        parse_json(raw)
    assert refusal.value.detail == f"The body is not UTF-8: byte {place} is wrong."


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (b'{"name": "ab\\u0000"}', 12),
        (b'"\\\\\\u0000"', 3),
        (b"[1, -9223372036854775809]", 4),
        (b'{"a":\n18446744073709551616}', 6),
        (b"9" * 30, 0),
    ],
)
def test_what_can_not_be_stored_is_named_by_its_place(raw: bytes, place: int) -> None:
    with pytest.raises(Problem, match=f"at byte {place}\\b"):
        parse_json(raw)


def test_no_place_is_named_that_may_be_in_a_string() -> None:
    with pytest.raises(Problem) as refusal:
        parse_json(b'["x18446744073709551616", 18446744073709551616]')
    assert refusal.value.detail == "Integers must fit in 64 bits."


@pytest.mark.parametrize("raw", ACCEPTED, ids=lambda raw: repr(raw[:30]))
def test_what_is_strict_json_is_parsed(raw: bytes) -> None:
    assert parse_json(raw) == ACCEPTED[raw]


@given(VALUES)
def test_every_json_value_comes_through_as_it_was(value: object) -> None:
    assert parse_json(orjson.dumps(value)) == json.loads(json.dumps(value))


@pytest.mark.parametrize("depth", [MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1])
def test_nesting_counts_outside_strings_only(depth: int) -> None:
    raw = b"[" * depth + b'"' + rb"[[[{{{\"[[[" * 40 + b'"' + b"]" * depth
    if depth <= MAX_DEPTH:
        parse_json(raw)
    else:
        with pytest.raises(Problem, match="nested"):
            parse_json(raw)


@pytest.mark.parametrize("before", [b"", b'{"a": [[]]}, ' * 40, b'["\\\\"], ' * 40, b'"[", [], ' * 40])
@pytest.mark.parametrize("depth", [MAX_DEPTH - 1, MAX_DEPTH])
def test_nesting_counts_wherever_it_is_deepest(before: bytes, depth: int) -> None:
    raw = b"[" + before + b'{"a":' * depth + b"1" + b"}" * depth + b"]"
    if depth < MAX_DEPTH:
        parse_json(raw)
    else:
        with pytest.raises(Problem, match="nested"):
            parse_json(raw)


def test_a_wide_body_is_not_a_deep_one() -> None:
    raw = b"[" + b",".join([b'{"a": []}'] * 10_000) + b"]"
    assert len(parse_json(raw)) == 10_000  # pyright: ignore[reportArgumentType]


UNITS = [b"[", b'{"":', b'"', b"\\u0000", b"9", b'\\"', b"[]", b"-9", b"e9", b'"a",', b'"[",[', b"\\"]


@pytest.mark.parametrize("end", [b"", b"[" * (MAX_DEPTH + 1), b"9" * 19, b"\\"], ids=repr)
@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_a_megabyte_of_anything_is_parsed_or_refused_in_linear_time(unit: bytes, end: bytes) -> None:
    from time import process_time

    def seconds(size: int) -> float:
        raw = (unit * size)[: size - len(end)] + end
        started = process_time()
        try:
            parse_json(raw)
        except Problem:
            pass
        return process_time() - started

    seconds(1000)
    assert seconds(MAX_BODY_BYTES) < 16 * max(seconds(MAX_BODY_BYTES // 4), 0.02)
