"""Expressions mean what jmespath.org/specification.html says, part by part."""

from __future__ import annotations

from typing import Any

import pytest

from language import expressions
from language.expressions import ExpressionError

PEOPLE = [
    {"name": "ann", "age": 30, "tags": ["a", "b"], "home": {"city": "Oslo"}},
    {"name": "bob", "age": 20, "tags": [], "home": None},
    {"name": "cat", "age": 40, "tags": ["c"]},
]
SCOPE: dict[str, Any] = {
    "people": PEOPLE,
    "numbers": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    "nested": [[1, [2]], [3], 4, [], None],
    "by_id": {"x": {"n": 1, "ok": True}, "y": {"n": 2}, "z": 3},
    "deep": {"er": {"est": "here"}},
    "text": "hello",
    "zero": 0,
    "empty": {"string": "", "list": [], "object": {}, "null": None, "no": False},
    "with space": 1,
    'quo"te': 2,
    "ünï": 3,
    "🎉": 4,
    "_x1": 5,
}


def value(text: str, scope: dict[str, Any] | None = None) -> Any:
    return expressions.compile(text).evaluate(SCOPE if scope is None else scope)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("text", "hello"),
        ("missing", None),
        ("deep.er.est", "here"),
        ("deep . er\n.\test", "here"),
        ("deep.nope.est", None),
        ("text.nope", None),
        ("people.name", None),
        ('"with space"', 1),
        ('"quo\\"te"', 2),
        ('"ünï"', 3),
        ('"\\u00fcn\\u00ef"', 3),
        ('"🎉"', 4),
        ('"\\ud83c\\udf89"', 4),
        ("_x1", 5),
        ('deep."er".est', "here"),
    ],
)
def test_names_and_dots_reach_into_objects_and_else_give_null(text: str, expected: object) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("numbers[0]", 0),
        ("numbers[-1]", 9),
        ("numbers[10]", None),
        ("numbers[-11]", None),
        ("numbers[99999999999999999]", None),
        ("text[0]", None),
        ("deep[0]", None),
        ("nested[0][1][0]", 2),
        ("people[1].name", "bob"),
        ("numbers[2:4]", [2, 3]),
        ("numbers[:2]", [0, 1]),
        ("numbers[8:]", [8, 9]),
        ("numbers[::3]", [0, 3, 6, 9]),
        ("numbers[::-4]", [9, 5, 1]),
        ("numbers[3:0:-1]", [3, 2, 1]),
        ("numbers[-2:]", [8, 9]),
        ("numbers[5:2]", []),
        ("numbers[-100:100]", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ("text[1:2]", None),
        ("people[:2].name", ["ann", "bob"]),
        ("people[0:1:1][0]", []),
        ("nested[0][:][0]", [2]),
    ],
)
def test_brackets_index_and_slice_arrays_alone(text: str, expected: object) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("people[*].name", ["ann", "bob", "cat"]),
        ("people[*].home.city", ["Oslo"]),
        ("people[*].home", [{"city": "Oslo"}]),
        ("people[*].tags[0]", ["a", "c"]),
        ("people[*].tags[*]", [["a", "b"], [], ["c"]]),
        ("people[*].tags[]", ["a", "b", "c"]),
        ("people[].tags[]", ["a", "b", "c"]),
        ("text[*]", None),
        ("missing[*].x", None),
        ("deep[*]", None),
        ("by_id.*.n", [1, 2]),
        ("by_id.*", [{"n": 1, "ok": True}, {"n": 2}, 3]),
        ("numbers.*", None),
        ("deep.*.est", ["here"]),
        ("nested[]", [1, [2], 3, 4]),
        ("nested[][]", [1, 2, 3, 4]),
        ("text[]", None),
        ("people[*].nope", []),
        ("(people[*].name)[0]", "ann"),
        ("people[*].name | [0]", "ann"),
        ("people[*].name[0]", []),
        ("people[*] | [0].name", "ann"),
        ("empty.*", ["", [], {}, False]),
    ],
)
def test_projections_apply_what_follows_to_each_element_and_drop_nulls(text: str, expected: object) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("people[?age > `25`].name", ["ann", "cat"]),
        ("people[?age > `25` && length(tags) == `1`].name", ["cat"]),
        ("people[?home].name", ["ann"]),
        ("people[?!home].name", ["bob", "cat"]),
        ("people[?tags].name", ["ann", "cat"]),
        ("people[?name == 'bob'].age | [0]", 20),
        ("people[?contains(tags, 'c')].name", ["cat"]),
        ("people[?age > `99`]", []),
        ("numbers[?@ > `7`]", [8, 9]),
        ("text[?@]", None),
        ("people[?age > `20`][]", [PEOPLE[0], PEOPLE[2]]),
        ("people[?age > `20`].tags[]", ["a", "b", "c"]),
        ("people[?tags[?@ == 'b']].name", ["ann"]),
    ],
)
def test_filters_keep_what_is_true(text: str, expected: object) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[text, zero]", ["hello", 0]),
        ("[missing]", [None]),
        ("deep.[er, nope]", [{"est": "here"}, None]),
        ("{a: text, b: zero}", {"a": "hello", "b": 0}),
        ('{"with space": text}', {"with space": "hello"}),
        ("deep.er.{is: est}", {"is": "here"}),
        ("missing.[a]", None),
        ("missing.{a: a}", None),
        ("people[*].[name, age]", [["ann", 30], ["bob", 20], ["cat", 40]]),
        ("people[*].{n: name} | [1]", {"n": "bob"}),
        ("[[text]]", [["hello"]]),
        ("people[0].{n: name, t: tags[0]}", {"n": "ann", "t": "a"}),
    ],
)
def test_lists_and_objects_are_made_of_several_values(text: str, expected: object) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("text || zero", "hello"),
        ("missing || zero", 0),
        ("empty.string || empty.list || empty.object || empty.null || empty.no || text", "hello"),
        ("zero || text", 0),
        ("text && zero", 0),
        ("empty.list && text", []),
        ("missing && text", None),
        ("!missing", True),
        ("!zero", False),
        ("!!text", True),
        ("missing || text && zero", 0),
        ("(missing || text) && zero", 0),
        ("text && missing || zero", 0),
        ("text | missing | zero", None),
        ("@.text", "hello"),
        ("deep | er | est", "here"),
        ("deep | @ | @.er | est", "here"),
    ],
)
def test_or_and_not_and_pipe_go_by_truth(text: str, expected: object) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`1` == `1.0`", True),
        ("`true` == `1`", False),
        ("`false` == `0`", False),
        ("`[true]` == `[1]`", False),
        ('`{"a": [0]}` == `{"a": [false]}`', False),
        ('`{"a": 1, "b": 2}` == `{"b": 2.0, "a": 1}`', True),
        ("`[1, 2]` == `[2, 1]`", False),
        ("`null` == missing", True),
        ("'a' == `\"a\"`", True),
        ("'a' != 'b'", True),
        ("'1' == `1`", False),
        ("`0` != `false`", True),
        ("`2` > `1`", True),
        ("`1` >= `1.0`", True),
        ("`1` < `1`", False),
        ("`1` <= `0`", False),
        ("'a' < 'b'", True),
        ("'2024-05-01' >= '2024-04-30'", True),
        ("'a' < `1`", None),
        ("`true` > `false`", None),
        ("missing < `1`", None),
        ("numbers > `1`", None),
    ],
)
def test_comparison_is_by_json_value_and_order_is_for_two_numbers_or_two_strings(
    text: str, expected: object
) -> None:
    assert value(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'a b'", "a b"),
        ("'it\\'s'", "it's"),
        ("'\\n'", "\\n"),
        ("'\"'", '"'),
        ("'{{'", "{{"),
        ("''", ""),
        ('`"a"`', "a"),
        ('`{"a": [1, null]}`', {"a": [1, None]}),
        ("` [1] `", [1]),
        ('`"back\\`tick"`', "back`tick"),
        ('`"\\u00e9"`', "é"),
        ('`{"a": 1}`.a', 1),
        ("`[1, 2]`[1]", 2),
    ],
)
def test_literals_are_json_in_backticks_or_plain_text_in_single_quotes(text: str, expected: object) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", " ", ".", "a.", ".a", "a..b", "a b", "a[", "a]", "a[b", "a[]]", "a[0", "[", "{", "{}", "{a}",
        "{a: b", "{a:}",
        "{a: b c: d}", "{1: a}", "a.{b}", "[a b]", "[a,]", "[,a]", "a.[]", "a.[b", "a[b]", "a[a:b]",
        "a[1:2:3:4]",
        "a[::0]", "a[1.0]", "a[?]", "a[?b", "a[?b == ]", "a ==", "== a", "a = b", "a === b", "a & b", "a | ",
        "| a",
        "a ||", "&& a", "a !b", "!", "(a", "a)", "()", "f(", "f(a", "f(,)", "f(a,)", "f(a b)", "length(a b)",
        "'a", '"a', "`a", "`{`", "`[1`", '"\\x"', "a#b", "#", "é", "a.1", "*a", "a*", "a.*b", "**", "a.*.",
        '"f"(a)', "a.'b'",
        "a.`1`", "&a", "a == &b", "true(a)", "length(&a)", "not_null(&a)", "(length)(a)", "$a", "a.$", "a.@",
        "7*7", "1 + 1", "-",
        "a - b", "a-b", "my-step.x", "step-1.x", "1e", "`\"\\ud800\"`", "'\0'",
        '`"\\u0000"`', '"\\u0000"', "\ud800",
        "a.[0]", "a.[b, 1]", "{{a}}", "1e999", "a?b", "a;b", "a,b", "`1e999`.a b",
    ],
)  # fmt: skip
def test_what_is_not_an_expression_is_refused_with_a_place(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        expressions.compile(text)
    assert caught.value.code == "bad_expression"
    assert caught.value.position is not None and 0 <= caught.value.position <= len(text)


@pytest.mark.parametrize(
    ("text", "position"),
    [("a.b ==", 6), ("a[?b == 'x", 8), ("a || #", 5), ("foo(a", 5), ("[a, b", 5), ("ab cd", 3), ("a.b-c", 3)],
)
def test_the_place_of_an_error_is_the_first_character_that_does_not_fit(text: str, position: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        expressions.compile(text)
    assert caught.value.position == position
