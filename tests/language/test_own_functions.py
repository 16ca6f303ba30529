"""The functions that are in no specification: times, digests, JSON in strings, parts of URLs."""

from __future__ import annotations

import hashlib
import math
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from language import expressions
from language.expressions import ExpressionError
from language.expressions.values import MAX_VALUE_DEPTH

START = "2026-12-24T18:05:09.000250+01:00"
SCOPE: dict[str, Any] = {
    "start": START,
    "expires": "2027-01-03",
    "nan": math.nan,
    "infinite": math.inf,
    "text": '{"a": [1, 2.5, null], "b": "é"}',
    "deep": "[" * (MAX_VALUE_DEPTH - 1) + "]" * (MAX_VALUE_DEPTH - 1),
    "deepest": "[" * 900 + "]" * 900,
    "bottomless": "[" * 2000,
    "lone": "\ud800",
    "large": "é" * 600_000,
    "arrays": "[" + "[]," * 200_000 + "[]]",
    "rows": list(range(2000)),
}


def value(text: str, scope: dict[str, Any] | None = None) -> Any:
    return expressions.compile(text).evaluate(SCOPE if scope is None else scope)


def refused(text: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        value(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("date_add(start, 1, 'days')", "2026-12-25T17:05:09.000250Z"),
        ("date_add(start, -90, 'minutes')", "2026-12-24T15:35:09.000250Z"),
        ("date_add('2026-01-31T10:00:00Z', 1.5, 'hours')", "2026-01-31T11:30:00Z"),
        ("date_add('2026-03-28T12:00:00+01:00', 1, 'days')", "2026-03-29T11:00:00Z"),
        ("date_add(expires, 30, 'seconds')", "2027-01-03T00:00:30Z"),
        ("date_add('2026-06-30T23:59:59-02:00', 0, 'days')", "2026-07-01T01:59:59Z"),
        ("date_diff(expires, '2026-12-24T12:00:00Z', 'days')", 9.5),
        ("date_diff(expires, '2026-12-24', 'days')", 10),
        ("date_diff('2026-12-24', expires, 'hours')", -240),
        ("date_diff(start, start, 'seconds')", 0),
        ("date_diff(start, '2026-12-24T17:05:09Z', 'seconds')", 0.00025),
        ("format_date(start, '%Y-%m-%d %H:%M:%S.%f')", "2026-12-24 17:05:09.000250"),
        ("format_date(start, '%H:%M %z', 'Europe/Berlin')", "18:05 +0100"),
        ("format_date(start, '%I:%M %p, %:z', 'America/New_York')", "12:05 PM, -05:00"),
        ("format_date(start, '%d.%m.%y at %M min', 'Asia/Kolkata')", "24.12.26 at 35 min"),
        ("format_date(start, '%A %a %B %b %j')", "Thursday Thu December Dec 358"),
        ("format_date(start, '%u %G-W%V %s %%')", "4 2026-W52 1798131909 %"),
        ("format_date('2026-07-01T00:00:00Z', '%z %I%p')", "+0000 12AM"),
        ("format_date('0033-04-03', '%Y %G')", "0033 0033"),
        ("format_date(expires, '')", ""),
        ("hash_sha256('abc')", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ("hash_sha256('')", hashlib.sha256().hexdigest()),
        ("hash_sha256('é')", hashlib.sha256("é".encode()).hexdigest()),
        ("parse_json(text)", {"a": [1, 2.5, None], "b": "é"}),
        ("parse_json(text).a[1]", 2.5),
        ("parse_json(' null ')", None),
        ("parse_json('18446744073709551616')", 2.0**64),
        ("parse_json('{\"a\": 1, \"a\": 2}')", {"a": 2}),
        ("parse_json('\"\\\\u0000\"')", "\\u0000"),
        ("parse_json(to_string(@.rows)) == rows", True),
        ("url_encode('a b/ü?&=+~-_.!*')", "a%20b%2F%C3%BC%3F%26%3D%2B~-_.%21%2A"),
        ("url_encode('')", ""),
    ],
)  # fmt: skip
def test_a_function_gives(text: str, expected: object) -> None:
    result = value(text)
    assert result == expected and type(result) is type(expected)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("date_add('2026-12-24T18:00:00', 1, 'days')", "with a zone"),
        ("date_add('tomorrow', 1, 'days')", "with a zone"),
        ("date_add('2026-02-29', 1, 'days')", "with a zone"),
        ("date_add('٢٠٢٦-١٢-٢٤', 1, 'days')", "with a zone"),
        ("date_add(large, 1, 'days')", "with a zone"),
        ("date_add(start, 1, 'months')", "'seconds', 'minutes', 'hours' or 'days'"),
        ("date_add(start, 1, lower('DAY'))", "'seconds', 'minutes', 'hours' or 'days'"),
        ("date_add(start, 1e300, 'days')", "years 1 to 9999"),
        ("date_add(start, 10000000, 'days')", "years 1 to 9999"),
        ("date_add(start, nan, 'days')", "years 1 to 9999"),
        ("date_add(start, infinite, 'days')", "years 1 to 9999"),
        ("date_diff(start, '', 'days')", "with a zone"),
        ("date_diff(start, start, 'weeks')", "'seconds', 'minutes', 'hours' or 'days'"),
        ("format_date(start, 'yyyy-MM-dd')", "'%Y-%m-%d %H:%M:%S' for yyyy-MM-dd HH:mm:ss"),
        ("format_date(start, '%Q')", "no such code. There are %Y,"),
        ("format_date(start, '%')", "no such code"),
        ("format_date(start, '%c')", "no such code"),
        ("format_date(start, join('', ['%', 'x']))", "no such code"),
        ("format_date(start, large)", "at most 200 characters"),
        ("format_date(start, '%Y', 'Berlin')", "'Europe/Berlin'"),
        ("format_date(start, '%Y', '../../etc/passwd')", "'Europe/Berlin'"),
        ("format_date(start, '%Y', '')", "'Europe/Berlin'"),
        ("format_date(start, '%Y', 'Europe')", "'Europe/Berlin'"),
        ("format_date(start, '%Y', large)", "'Europe/Berlin'"),
        ("format_date('9999-12-31T23:00:00Z', '%Y', 'Asia/Tokyo')", "years 1 to 9999"),
        ("parse_json('')", "from its character 1 on"),
        ("parse_json('{\"a\": x}')", "from its character 7 on"),
        ("parse_json('[1,]')", "takes JSON"),
        ("parse_json('NaN')", "takes JSON"),
        ("parse_json('-Infinity')", "takes JSON"),
        ("parse_json('1e999')", "takes JSON"),
        ("parse_json(lone)", "takes JSON"),
        ("parse_json('\"\\ud800\"')", "takes JSON"),
        ("parse_json('\"\\u0000\"')", "NUL"),
        ("parse_json('{\"\\u0000\": 1}')", "NUL"),
        ("parse_json(bottomless)", "takes JSON"),
    ],
)  # fmt: skip
def test_a_value_that_a_function_cannot_use_is_told(text: str, said: str) -> None:
    error = refused(text)
    assert (error.code, error.position is None) == ("invalid_value", False) and said in error.reason


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("false && date_add(start, 1, 'day')", 28),
        ("false && date_diff(start, end, 'day')", 31),
        ("false && format_date(start, 'yyyy')", 28),
        ("false && format_date(start, '%Y', 'Berlin')", 34),
    ],
)
def test_what_is_written_out_and_never_right_is_refused_when_compiled(text: str, position: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        expressions.compile(text)
    assert (caught.value.code, caught.value.position) == ("invalid_value", position)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("parse_json(deep)", None),
        ("parse_json(deepest)", "too_deep"),
        ("parse_json(arrays)", "too_many_nodes"),
        ("map(&parse_json($.text), rows) | length(@)", None),
        ("map(&hash_sha256($.large), rows)", "too_many_nodes"),
        ("map(&format_date($.start, '%A'), $.rows[]) | [@, @, @, @, @] | length(@)", None),
        ("url_encode(large)", "too_many_nodes"),
        ("url_encode(join('', map(&'éééééééééééééééééééééééééééééééééééééééé', $.rows)))", None),
        ("hash_sha256(lone)", None),
        ("url_encode(lone)", None),
    ],
)
def test_the_work_of_a_function_is_bounded(text: str, code: str | None) -> None:
    if code is None:
        assert value(text)
    else:
        assert refused(text).code == code


moments = st.datetimes(datetime(1000, 1, 1), datetime(9000, 1, 1), timezones=st.just(UTC))


@given(one=moments, other=moments)
def test_what_lies_between_two_times_leads_from_one_to_the_other(one: datetime, other: datetime) -> None:
    scope = {"one": one.isoformat(), "other": other.isoformat()}
    between = value("date_diff(one, other, 'seconds')", scope)
    assert between == (one - other) / timedelta(seconds=1)
    there = datetime.fromisoformat(value("date_add(other, n, 'days')", scope | {"n": (one - other).days}))
    assert timedelta() <= one - there < timedelta(days=1)


CODES = "%Y-%m-%d %H:%M:%S.%f %I %p %a %A %b %B %j %u %G %V %z %%"


@given(moment=moments)
def test_the_codes_of_a_format_are_those_of_python_in_the_locale_c(moment: datetime) -> None:
    assert value(f"format_date(t, '{CODES}')", {"t": moment.isoformat()}) == moment.strftime(CODES)


@given(text=st.text())
def test_what_was_encoded_for_a_url_can_be_read_again(text: str) -> None:
    encoded = value("url_encode(t)", {"t": text})
    assert encoded.isascii() and unquote(encoded) == text


words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
documents: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda inner: st.lists(inner) | st.dictionaries(words, inner),
    max_leaves=10,
)


@given(data=documents)
def test_json_in_a_string_is_read_as_it_was_written(data: Any) -> None:
    assert value("parse_json(t)", {"t": orjson.dumps(data).decode()}) == data
