"""The functions of JMESPath Community do what its compliance tests say, and what these leave open."""

from __future__ import annotations

from typing import Any

import pytest

from language import expressions
from language.expressions import Budget, ExpressionError
from language.expressions.community import Community

SPACES = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
)
NODES = [
    {"spec": {"nodeNumber": 1, "nodeName": "node_01", "other": "values_01"}},
    {"spec": {"nodeNumber": 2, "nodeName": "node_02", "other": "values_02"}},
    {"spec": {"nodeNumber": 3, "nodeName": "node_03", "other": "values_03"}},
    {"spec": {"nodeNumber": 1, "nodeName": "node_01", "other": "values_04"}},
]
SCOPE: dict[str, Any] = {
    "abab": "aabaaabaaaab",
    "string": "subject string",
    "padded": " subject string ",
    "means": "avg|-|min|-|max|-|mean|-|mode|-|median",
    "spaces": SPACES + "\u202f\u205f\u3000",
    "nodes": NODES,
    "people": [{"age": 20, "bool": True, "name": "a"}, {"age": 10, "bool": True, "name": 3}],
    "numbers": [-1, 3, 4, 5],
    "strings": ["a", "b", "c"],
    "decimals": [1.01, 1.2, -1.5],
    "pairs": [["a", "first"], ["b", "second"], ["c", "third"]],
    "objects": {"foo": "bar", "bar": "baz"},
    "word": "x" * 1000,
    "large": "é" * 600_000,
    "rows": [{"n": n} for n in range(2000)],
}


def value(text: str, scope: dict[str, Any] | None = None, budget: Budget | None = None) -> Any:
    return expressions.compile(text).evaluate(SCOPE if scope is None else scope, budget)


# From jmespath-community/jmespath.test
COMPLIANCE = [
    ("find_first(string, 'string')", 8),
    ("find_first(string, 'string', `0`)", 8),
    ("find_first(string, 'string', `0`, `14`)", 8),
    ("find_first(string, 'string', `-6`)", 8),
    ("find_first(string, 'string', `-99`, `100`)", 8),
    ("find_first(string, 'string', `0`, `13`)", None),
    ("find_first(string, 'string', `8`)", 8),
    ("find_first(string, 'string', `8`, `11`)", None),
    ("find_first(string, 'string', `9`)", None),
    ("find_first(string, 's')", 0),
    ("find_first(string, 's', `1`)", 8),
    ("find_first(string, '')", None),
    ("find_first('', '')", None),
    ("find_last(string, 'string')", 8),
    ("find_last(string, 'string', `8`)", 8),
    ("find_last(string, 'string', `8`, `9`)", None),
    ("find_last(string, 'string', `9`)", None),
    ("find_last(string, 's', `1`)", 8),
    ("find_last(string, 's', `-6`)", 8),
    ("find_last(string, 's', `0`, `7`)", 0),
    ("find_last(string, '')", None),
    ("find_last('', '')", None),
    ("lower('STRING')", "string"),
    ("upper('string')", "STRING"),
    ("replace(abab, 'aa', '-', `0`)", "aabaaabaaaab"),
    ("replace(abab, 'aa', '-', `1`)", "-baaabaaaab"),
    ("replace(abab, 'aa', '-', `2`)", "-b-abaaaab"),
    ("replace(abab, 'aa', '-', `3`)", "-b-ab-aab"),
    ("replace(abab, 'aa', '-')", "-b-ab--b"),
    ("trim(padded)", "subject string"),
    ("trim(padded, '')", "subject string"),
    ("trim(padded, ' ')", "subject string"),
    ("trim(padded, 's')", " subject string "),
    ("trim(padded, 'su')", " subject string "),
    ("trim(padded, 'su ')", "bject string"),
    ("trim(padded, 'gsu ')", "bject strin"),
    ("trim(spaces)", ""),
    ("trim_left(padded)", "subject string "),
    ("trim_left(padded, 's')", " subject string "),
    ("trim_left(padded, 'su')", " subject string "),
    ("trim_left(padded, 'su ')", "bject string "),
    ("trim_left(padded, 'gsu ')", "bject string "),
    ("trim_right(padded)", " subject string"),
    ("trim_right(padded, 's')", " subject string "),
    ("trim_right(padded, 'su')", " subject string "),
    ("trim_right(padded, 'su ')", " subject string"),
    ("trim_right(padded, 'gsu ')", " subject strin"),
    ("pad_left('string', `0`)", "string"),
    ("pad_left('string', `5`)", "string"),
    ("pad_left('string', `10`)", "    string"),
    ("pad_left('string', `10`, '-')", "----string"),
    ("pad_right('string', `0`)", "string"),
    ("pad_right('string', `5`)", "string"),
    ("pad_right('string', `10`)", "string    "),
    ("pad_right('string', `10`, '-')", "string----"),
    ("split('/', '/')", ["", ""]),
    ("split('', '')", []),
    ("split('all chars', '')", ["a", "l", "l", " ", "c", "h", "a", "r", "s"]),
    ("split('all chars', '', `3`)", ["a", "l", "l", " chars"]),
    ("split(means, '|-|')", ["avg", "min", "max", "mean", "mode", "median"]),
    ("split(means, '|-|', `3`)", ["avg", "min", "max", "mean|-|mode|-|median"]),
    ("split(means, '|-|', `2`)", ["avg", "min", "max|-|mean|-|mode|-|median"]),
    ("split(means, '|-|', `1`)", ["avg", "min|-|max|-|mean|-|mode|-|median"]),
    ("split(means, '|-|', `0`)", ["avg|-|min|-|max|-|mean|-|mode|-|median"]),
    ("group_by(nodes, &spec.nodeName)", {
        "node_01": [NODES[0], NODES[3]], "node_02": [NODES[1]], "node_03": [NODES[2]],
    }),
    ("group_by(nodes, &to_string(spec.nodeNumber))", {
        "1": [NODES[0], NODES[3]], "2": [NODES[1]], "3": [NODES[2]],
    }),
    ("sort_by(items(objects), &[0])", [["bar", "baz"], ["foo", "bar"]]),
    ("items(`{}`)", []),
    ("from_items(pairs)", {"a": "first", "b": "second", "c": "third"}),
    ("zip(strings, numbers)", [["a", -1], ["b", 3], ["c", 4]]),
    ("zip(strings, numbers, decimals)", [["a", -1, 1.01], ["b", 3, 1.2], ["c", 4, -1.5]]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), COMPLIANCE)
def test_a_function_gives_what_the_compliance_tests_say(text: str, expected: object) -> None:
    result = value(text)
    assert result == expected and type(result) is type(expected)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("find_first(string, 'string', `1`, `2`, `3`)", "wrong_arity"),
        ("find_first(@, 'string', `1`, `2`)", "wrong_type"),
        ("find_first(string, 'string', '1')", "wrong_type"),
        ("find_first(string, 'string', `1`, '2')", "wrong_type"),
        ("find_first(string, 'string', `1.3`, '2')", "wrong_type"),
        ("find_first(string, 'string', `1.3`, `2.4`)", "invalid_value"),
        ("replace(abab, 'aa', '-', `0.333333`)", "invalid_value"),
        ("replace(abab, 'aa', '-', `0.001`)", "invalid_value"),
        ("pad_left('string', '1')", "wrong_type"),
        ("pad_left('string', `1`, '--')", "invalid_value"),
        ("pad_left('string', `1.4`)", "invalid_value"),
        ("split('/', '/', `3.7`)", "invalid_value"),
        ("group_by(@, &`false`)", "wrong_type"),
        ("group_by(keys(nodes[*].spec|[0]), &`false`)", "wrong_type"),
        ("group_by(nodes, spec.nodeName)", "wrong_type"),
        ("group_by(nodes, &spec.nodeNumber)", "wrong_type"),
        ("group_by(people, &bool)", "wrong_type"),
        ("items(numbers)", "wrong_type"),
        ("zip(string)", "wrong_type"),
    ],
)
def test_a_function_refuses_what_the_compliance_tests_say(text: str, code: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        value(text)
    assert caught.value.code == code


# What the specification says beside its tests


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("find_first(string, 's', `1.0`)", 8),
        ("lower('ÄÖ İ')", "äö i̇"),
        ("upper('straße')", "STRASSE"),
        ("trim('\x1cx\x1c')", "\x1cx\x1c"),
        ("split('abc', '', `3`)", ["a", "b", "c"]),
        ("split('abc', '', `99`)", ["a", "b", "c"]),
        ("split('abc', '', `0`)", ["abc"]),
        ("split('', '', `0`)", [""]),
        ("split('', ',')", [""]),
        ("split('a', 'bc')", ["a"]),
        ("split('a-b-c', '-', `1e300`)", ["a", "b", "c"]),
        ("replace('abc', '', '-')", "-a-b-c-"),
        ("replace('abc', '', '-', `2`)", "-a-bc"),
        ("replace('a.b.c', '.', '')", "abc"),
        ("replace('a', 'a', 'b', `1e300`)", "b"),
        ("pad_left('x', `-5`)", "x"),
        ("group_by(`[]`, &x)", {}),
        ("group_by(`[{\"a\": \"x\"}, {\"b\": 1}, {\"a\": null}]`, &a)", {"x": [{"a": "x"}]}),
        ("items(`{\"b\": 1, \"a\": null}`)", [["b", 1], ["a", None]]),
        ("from_items(`[[\"one\", 1], [\"two\", 2], [\"one\", 3]]`)", {"one": 3, "two": 2}),
        ("from_items(items(objects)) == objects", True),
        ("zip(`[]`, numbers)", []),
        ("zip(numbers)", [[-1], [3], [4], [5]]),
    ],
)  # fmt: skip
def test_a_function_gives(text: str, expected: object) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("split('a', 'b', `-1`)", "invalid_value"),
        ("replace('a', 'b', 'c', `-1`)", "invalid_value"),
        ("pad_right('a', `3`, '')", "invalid_value"),
        ("lower(null)", "wrong_type"),
        ("trim('a', null)", "wrong_type"),
        ('from_items(`[["a"]]`)', "wrong_type"),
        ("from_items(`[[1, 2]]`)", "wrong_type"),
        ("from_items(strings)", "wrong_type"),
        ('group_by(`[{"a": "x"}, null]`, &a)', "wrong_type"),
    ],
)
def test_a_function_refuses(text: str, code: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        value(text)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("pad_left('x', `1e300`)", "output_too_large"),
        ("pad_right('x', 2000000)", "output_too_large"),
        ("replace(word, 'x', word) | replace(@, 'x', $.word)", "output_too_large"),
        ("replace(word, '', word) | replace(@, '', $.word)", "output_too_large"),
        ("split(large, '')", "output_too_large"),
        ("word | " + "|".join(["replace(@, 'x', 'xx')"] * 40), "output_too_large"),
        ("upper(large) | lower(@) | map(&upper($.large), $.rows)", "too_many_nodes"),
        ("map(&trim($.large, $.large), rows)", "too_many_nodes"),
        ("map(&trim($.large), rows) | length(@)", "too_many_nodes"),
        ("map(&find_first($.large, 'x'), rows)", "too_many_nodes"),
        ("map(&find_last($.large, 'éx'), rows)", "too_many_nodes"),
        ("map(&split($.large, 'x'), rows) | length(@)", "too_many_nodes"),
        ("map(&replace($.large, 'x', 'y'), rows) | length(@)", "too_many_nodes"),
        ("map(&pad_left('x', 1000000), rows) | length(@)", "too_many_nodes"),
        ("map(&group_by($.rows, &'x'), rows) | length(@)", "too_many_nodes"),
        ("map(&zip($.rows, $.rows), rows) | length(@)", "too_many_nodes"),
        ("map(&items(from_items(zip($.rows[*].to_string(n), $.rows))), rows) | length(@)", "too_many_nodes"),
    ],
)
def test_a_bomb_is_refused_by_what_it_would_do(text: str, code: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        value(text)
    assert caught.value.code == code


def test_every_function_has_a_case_of_the_compliance_tests() -> None:
    names = {text.partition("(")[0] for text, _ in COMPLIANCE} - {"sort_by"} | {"items"}
    assert names == Community.FUNCTION_TABLE.keys()
