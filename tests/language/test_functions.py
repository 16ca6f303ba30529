"""The functions of expressions: values, types, and the corners where Python and JSON differ."""

from __future__ import annotations

import math
from typing import Any

import pytest

from language import expressions
from language.expressions import ExpressionError
from language.expressions.functions import Specified
from language.expressions.library import FUNCTIONS

SCOPE: dict[str, Any] = {
    "numbers": [3, 1.5, 2],
    "words": ["b", "a", "ä"],
    "people": [{"n": "b", "age": 2}, {"n": "a", "age": 2}, {"n": "c", "age": 1}],
    "mixed": [1, "a"],
    "object": {"z": 1, "a": 2},
    "text": "hello",
    "emoji": "a🎉",
    "yes": True,
    "huge": 1.7e308,
    "integer": 10**400,
    "endless": 10**5000,
    "digits": "9" * 5000,
}


def value(text: str) -> Any:
    return expressions.compile(text).evaluate(SCOPE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abs(`-1.5`)", 1.5),
        ("abs(`-3`)", 3),
        ("avg(numbers)", 6.5 / 3),
        ("avg(`[]`)", None),
        ("ceil(`1.2`)", 2),
        ("ceil(`-1.2`)", -1),
        ("ceil(`1e300`)", 1e300),
        ("contains(text, 'ell')", True),
        ("contains(text, '')", True),
        ("contains(text, `1`)", False),
        ("contains(words, 'a')", True),
        ("contains(numbers, `2.0`)", True),
        ("contains(`[1]`, `true`)", False),
        ("contains(`[true]`, `1`)", False),
        ("contains(`[1, true]`, `true`)", True),
        ("contains(`[[1]]`, `[1.0]`)", True),
        ("contains(`[[true]]`, `[1]`)", False),
        ("contains(`[null]`, missing)", True),
        ("ends_with(text, 'lo')", True),
        ("ends_with(text, 'l')", False),
        ("floor(`1.8`)", 1),
        ("floor(`-1.2`)", -2),
        ("join(', ', words)", "b, a, ä"),
        ("join('', `[]`)", ""),
        ("keys(object)", ["z", "a"]),
        ("length(text)", 5),
        ("length(emoji)", 2),
        ("length(numbers)", 3),
        ("length(object)", 2),
        ("map(&age, people)", [2, 2, 1]),
        ("map(&nope, people)", [None, None, None]),
        ("map(&[@, `0`], numbers)", [[3, 0], [1.5, 0], [2, 0]]),
        ("max(numbers)", 3),
        ("max(words)", "ä"),
        ("max(`[]`)", None),
        ("max_by(people, &age)", {"n": "b", "age": 2}),
        ("max_by(`[]`, &age)", None),
        ("merge(object, `{\"a\": 3}`)", {"z": 1, "a": 3}),
        ("merge(object)", {"z": 1, "a": 2}),
        ("min(numbers)", 1.5),
        ("min(words)", "a"),
        ("min_by(people, &age).n", "c"),
        ("not_null(missing, null, yes, text)", True),
        ("not_null(missing)", None),
        ("reverse(numbers)", [2, 1.5, 3]),
        ("reverse(emoji)", "🎉a"),
        ("sort(numbers)", [1.5, 2, 3]),
        ("sort(words)", ["a", "b", "ä"]),
        ("sort(`[]`)", []),
        ("sort_by(people, &age)[*].n", ["c", "b", "a"]),
        ("sort_by(people, &n)[*].n", ["a", "b", "c"]),
        ("sort_by(`[]`, &n)", []),
        ("starts_with(text, 'he')", True),
        ("starts_with(text, 'e')", False),
        ("sum(numbers)", 6.5),
        ("sum(`[]`)", 0),
        ("sum(`[18446744073709551615, 1]`)", 2.0**64),
        ("to_array(text)", ["hello"]),
        ("to_array(numbers)", [3, 1.5, 2]),
        ("to_array(null)", [None]),
        ("to_number('12')", 12),
        ("to_number('-1.5e2')", -150.0),
        ("to_number(`7`)", 7),
        ("to_number(yes)", None),
        ("to_number(numbers)", None),
        ("to_string(text)", "hello"),
        ("to_string(`{\"a\": [1, 2.5, null, true, \"é\\\"\"]}`)", '{"a":[1,2.5,null,true,"é\\""]}'),
        ("to_string(yes)", "true"),
        ("to_string(null)", "null"),
        ("type(text)", "string"),
        ("type(`1.5`)", "number"),
        ("type(yes)", "boolean"),
        ("type(numbers)", "array"),
        ("type(object)", "object"),
        ("type(missing)", "null"),
        ("values(object)", [1, 2]),
    ],
)  # fmt: skip
def test_a_function_gives(text: str, expected: object) -> None:
    result = value(text)
    assert result == expected and type(result) is type(expected)


def test_all_functions_of_the_specification_are_there() -> None:
    assert sorted(Specified.FUNCTION_TABLE) == [
        "abs", "avg", "ceil", "contains", "ends_with", "floor", "join", "keys", "length", "map", "max",
        "max_by",
        "merge", "min", "min_by", "not_null", "reverse", "sort", "sort_by", "starts_with", "sum", "to_array",
        "to_number", "to_string", "type", "values",
    ]  # fmt: skip


def test_no_function_is_one_of_jmespath_itself_which_know_no_bounds() -> None:
    assert all(function.call.__module__.startswith("language.") for function in FUNCTIONS.values())


@pytest.mark.parametrize(
    "text",
    ["' 1'", "'1 '", "'1_0'", "'+1'", "'0x1'", "'01'", "'nan'", "'-Infinity'", "'1e999'", "''", "'-'", "'1.'",
     "'.5'", "'٣'", "'true'", "'1,2'", "digits"],
)  # fmt: skip
def test_to_number_takes_the_numbers_of_json_and_gives_null_for_all_else(text: str) -> None:
    assert value(f"to_number({text})") is None


@pytest.mark.parametrize(
    "text",
    [
        "abs(text)", "abs(yes)", "abs(missing)", "avg(text)", "avg(words)", "avg(`[true]`)", "ceil('1')",
        "contains(yes, 'a')",
        "contains(missing, 'a')", "ends_with(text, `1`)", "floor(null)", "join(', ', text)",
        "join(', ', mixed)",
        "join(`1`, words)", "keys(numbers)", "keys(missing)", "length(yes)", "length(missing)", "length(`1`)",
        "map(&@, text)", "max(mixed)", "max(object)", "max(`[null]`)", "max_by(people, &@)",
        "max_by(mixed, &@)",
        "merge(object, numbers)", "min(`[[1]]`)", "min_by(text, &@)", "reverse(object)", "sort(mixed)",
        "sort(object)",
        "sort(`[true, false]`)", "sort_by(people, &nope)", "sort_by(mixed, &@)", "starts_with(`1`, 'a')",
        "sum(mixed)",
        "sum(text)", "values(text)", "sum([huge, huge])", "avg([huge, huge])", "sum([integer, huge])",
        "abs(integer)",
        "ceil(integer)", "to_string(endless)", "endless", "avg([integer])",
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_type_is_an_error_that_does_not_show_it(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        value(text)
    assert caught.value.code == "wrong_type"
    assert "hello" not in caught.value.message


@pytest.mark.parametrize("text", ["map(people, &age)", "sort_by(people, age)", "max_by(people, 'age')"])
def test_an_argument_that_can_never_fit_is_refused_when_compiled(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        expressions.compile(text)
    assert caught.value.code in ("wrong_type", "bad_expression")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("abs()", "abs() takes 1 argument, not 0."),
        ("abs(a, b)", "abs() takes 1 argument, not 2."),
        ("join(a)", "join() takes 2 arguments, not 1."),
        ("merge()", "merge() takes at least 1 argument, not 0."),
    ],
)
def test_a_wrong_number_of_arguments_is_refused_when_compiled(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        expressions.compile(f"a && {text}")
    assert (caught.value.code, caught.value.reason, caught.value.position) == ("wrong_arity", message, 5)


def test_sums_do_not_depend_on_how_an_interpreter_rounds() -> None:
    assert value("sum(`[0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]`)") == 0.9999999999999999


def test_no_result_is_infinite_or_not_a_number() -> None:
    for bad in (math.inf, -math.inf, math.nan):
        for text in (
            "x",
            "[x]",
            "{a: x}",
            "abs(x)",
            "ceil(x)",
            "floor(x)",
            "sum([x])",
            "to_string(x)",
            "to_string([x])",
        ):
            with pytest.raises(ExpressionError) as caught:
                expressions.compile(text).evaluate({"x": bad})
            assert caught.value.code == "wrong_type"
