"""Properties of expressions: agreement with the reference implementation, and no failure but their own."""

from __future__ import annotations

import copy
import json
from typing import Any

import jmespath
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from jmespath.exceptions import JMESPathError

from language import expressions
from language.expressions import Budget, ExpressionError

NAMES = ["a", "b", "c", "d"]

# Numbers apart from 0 and 1, since the reference takes [true] for [1].
numbers = st.integers(2, 30) | st.sampled_from([2.5, 3.0, -4.5])
scalars = st.none() | st.booleans() | numbers | st.sampled_from(["", "x", "xy", "é", "7"])
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=14,
)
scopes = st.dictionaries(st.sampled_from(NAMES), values, min_size=1, max_size=4)

literals = scalars.filter(lambda value: not isinstance(value, str)).map(
    lambda value: f"`{json.dumps(value)}`"
) | (st.sampled_from(["'x'", "'xy'", "''"]))


def _suffixes(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.sampled_from(
            [*(f".{name}" for name in NAMES), ".*", "[*]", "[]", "[0]", "[-1]", "[1:]", "[::-1]", "[:2]"]
        ),
        inner.map(lambda condition: f"[?{condition}]"),
        inner.map(lambda item: f".[{item}]"),
        st.tuples(st.sampled_from(NAMES), inner).map(lambda pair: f".{{{pair[0]}: {pair[1]}}}"),
    )


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def call(template: str) -> st.SearchStrategy[str]:
        holes = template.count("%s")
        return st.tuples(*[inner] * holes).map(lambda arguments: template % arguments)

    return st.one_of(
        st.tuples(inner, _suffixes(inner)).map("".join),
        st.tuples(inner, st.sampled_from(["==", "!=", "<", ">=", "&&", "||", "|"]), inner).map(" ".join),
        inner.map(lambda text: f"({text})"),
        inner.map(lambda text: f"(!({text}))"),
        st.sampled_from(
            ["length(%s)", "keys(%s)", "values(%s)", "type(%s)", "not_null(%s, %s)", "to_array(%s)",
             "reverse(%s)",
             "sort(%s)", "sum(%s)", "avg(%s)", "max(%s)", "min(%s)", "abs(%s)", "join('-', %s)",
             "to_string(%s)",
             "map(&%s, %s)", "sort_by(%s, &%s)", "max_by(%s, &%s)", "min_by(%s, &%s)", "contains(%s, %s)",
             "starts_with(%s, %s)", "merge(%s, %s)", "floor(%s)", "[%s, %s]", "{a: %s, b: %s}"]
        ).flatmap(call),
    )  # fmt: skip


texts: st.SearchStrategy[str] = st.recursive(
    st.sampled_from([*NAMES, "@", "*", "[*]", "[0]", *NAMES]) | literals, _larger, max_leaves=8
)


@settings(max_examples=400, deadline=None)
@given(text=texts, scope=scopes)
@example(text="a[*].b[]", scope={"a": [{"b": [2, [3]]}, {"b": 2}]})
def test_values_are_those_of_the_reference_implementation(text: str, scope: dict[str, Any]) -> None:
    try:
        expected = jmespath.search(text, copy.deepcopy(scope))
    except JMESPathError:
        with pytest.raises(ExpressionError):
            expressions.compile(text).evaluate(scope)
        return
    except (TypeError, AttributeError):
        # It fails by accident where numbers meet strings; ours has an answer.
        assume(False)
    result = expressions.compile(text).evaluate(scope)
    assert result == expected and json.dumps(result) == json.dumps(expected)


anything: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -(10**1000), 2**64])
    | st.floats()
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(NAMES) | st.text(), inner),
    max_leaves=20,
)
fragments = st.lists(
    st.sampled_from(
        [*NAMES, "@", "$", "*", "[", "]", "[]", "[?", "{", "}", "(", ")", ",", ":", ".", "|", "||", "&&", "!",
         "&", "==",
         "<", ">=", "1", "-1.5", "0", "true", "null", "'x'", '"a"', "`[1]`", "`x", "'",
         '"', "-", " ", "é", "\ud800",
         "\0", "length(", "sort_by(", "map(&", "to_string(", "to_number(", "sum(", "max(", "join(", "merge(",
         "abs("]
    ),
    max_size=25,
).map("".join)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(text=texts | fragments | st.text(max_size=60), scope=st.dictionaries(st.sampled_from(NAMES), anything))
def test_whatever_the_text_and_the_data_an_expression_fails_only_as_expressions_do(
    text: str, scope: dict[str, Any]
) -> None:
    try:
        result = expressions.compile(text).evaluate(scope)
    except ExpressionError as error:
        assert error.code and error.message
        assert error.position is None or 0 <= error.position <= len(text)
        return
    written = json.dumps(result, allow_nan=False)
    assert len(written.encode()) < 7 * 1_048_576


@settings(max_examples=300, deadline=None)
@given(text=texts, scope=scopes)
def test_the_same_work_ends_the_same_way_and_costs_the_same(text: str, scope: dict[str, Any]) -> None:
    def outcome(data: dict[str, Any]) -> tuple[Any, int, int]:
        budget = Budget(nodes=60, output_bytes=60)
        try:
            result: Any = json.dumps(expressions.compile.__wrapped__(text).evaluate(data, budget))
        except ExpressionError as error:
            result = (error.code, error.message, error.position)
        return result, budget.nodes_left, budget.output_left

    before = copy.deepcopy(scope)
    first = outcome(scope)
    assert scope == before
    assert first == outcome(json.loads(json.dumps(scope)))
    assert first[1] >= 0 and first[2] >= 0


@settings(max_examples=150, deadline=None)
@given(value=anything)
def test_the_size_counted_is_the_size_written(value: Any) -> None:
    budget = Budget()
    try:
        expressions.compile("x").evaluate({"x": value}, budget)
    except ExpressionError as error:
        assert error.code == "wrong_type"
        return
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert 1_048_576 - budget.output_left == len(written.encode("utf-8", "surrogatepass"))


@settings(deadline=None)
@given(text=texts)
def test_references_are_all_that_an_expression_can_tell_apart(text: str) -> None:
    expression = expressions.compile(text)
    read = {reference.root for reference in expression.references}
    assume("@" not in read)

    def outcome(scope: dict[str, Any]) -> Any:
        try:
            return expression.evaluate(scope)
        except ExpressionError as error:
            return error.code

    full: dict[str, Any] = {name: {"a": [{"b": 2}], "c": "x"} for name in NAMES}
    assert outcome(full) == outcome({name: full[name] for name in read if name in full})
