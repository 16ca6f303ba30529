"""What expressions add to JMESPath, what they tell about themselves, and the bounds they keep."""

from __future__ import annotations

import collections
import copy
import json
from typing import Any

import pytest

from language import expressions
from language.expressions import WHOLE_SCOPE, Budget, ExpressionError, truthy
from language.validation import checks

SCOPE: dict[str, Any] = {
    "a": 6,
    "true": "field",
    "flags": {"true": 1, "null": 2, "false": 3},
    "trigger": {"country": "DE", "score": 40, "items": [{"c": "DE", "n": 1}, {"c": "FR", "n": 2}]},
    "items": [{"c": "DE", "n": 10}, {"c": "FR", "n": 20}],
    "my-step": {"x": 1},
}


def value(text: str, scope: dict[str, Any] | None = None, budget: Budget | None = None) -> Any:
    return expressions.compile(text).evaluate(SCOPE if scope is None else scope, budget)


def code_of(text: str, scope: dict[str, Any] | None = None, budget: Budget | None = None) -> str:
    with pytest.raises(ExpressionError) as caught:
        value(text, scope, budget)
    return caught.value.code


# What is added to JMESPath


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", 5),
        ("-1.5", -1.5),
        ("1e3", 1000.0),
        ("2.5E-1", 0.25),
        ("a > 5", True),
        ("a == 6.0", True),
        ("-1 < 0", True),
        ("5 < a && a < 7", True),
        ("items[?n > 15].c", ["FR"]),
        ("items[1].n > 15", True),
        ("abs(-3)", 3),
        ("[1, 2, a]", [1, 2, 6]),
        ("[1.5]", [1.5]),
        ("contains([5, 6], a)", True),
        ("{n: 1, m: -2}", {"n": 1, "m": -2}),
        ("nope || 7", 7),
        ("18446744073709551616", 2.0**64),
        ("007", 7),
    ],
)
def test_numbers_need_no_backticks(text: str, expected: object) -> None:
    result = value(text)
    assert result == expected and type(result) is type(expected)


def test_a_number_alone_in_brackets_stays_an_index() -> None:
    assert value("trigger.items | [1].n") == 2
    assert value("[1]") is None
    assert value("items[0].n") == 10


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", True),
        ("false", False),
        ("null", None),
        ("nope == null", True),
        ("(a > 5) == true", True),
        ("true == 1", False),
        ("a == null || false", False),
        ("[true, null]", [True, None]),
        ("{ok: true}", {"ok": True}),
        ("not_null(null, a)", 6),
        ('"true"', "field"),
        ("flags.true", 1),
        ("flags.null", 2),
        ("flags.{true: false}", {"true": False}),
        ("flags.[true, null, false]", [True, None, False]),
        ("@.true", "field"),
        ("$.true", "field"),
        ("flags.*", [1, 2, 3]),
        ("truest", None),
    ],
)
def test_true_false_and_null_are_values_unless_quoted_or_after_a_dot(text: str, expected: object) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("items[?c == $.trigger.country].n", [10]),
        ("trigger.items[?c == $.items[1].c].n", [2]),
        ("items[*].[n, $.a]", [[10, 6], [20, 6]]),
        ("map(&sum([n, $.a]), items)", [16, 26]),
        ("trigger | $.a", 6),
        ("$.a", 6),
        ("$ | a", 6),
        ("keys($)", list(SCOPE)),
        ("$.items[?c == $.trigger.items[0].c] | [0].n", 10),
    ],
)
def test_a_dollar_is_the_root_of_the_scope_wherever_it_stands(text: str, expected: object) -> None:
    assert value(text) == expected


def test_a_name_with_a_hyphen_is_quoted_and_an_unquoted_one_is_explained() -> None:
    assert value('"my-step".x') == 1
    with pytest.raises(ExpressionError) as caught:
        expressions.compile("my-step.x")
    assert caught.value.code == "bad_expression" and '"my-step"' in caught.value.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [("!flags.true", False), ("!flags.nope", True), ("!items[?n > 15]", False), ("!flags.nope == true", True),
     ("!flags.nope && a", 6), ("!!flags.true", True), ("!items[*].nope[]", True)],
)  # fmt: skip
def test_not_negates_all_of_a_path(text: str, expected: object) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [(None, False), (False, False), ("", False), ([], False), ({}, False), (True, True), (0, True), (0.0,
     True),
     (-1, True), (" ", True), ([0], True), ({"a": None}, True)],
)  # fmt: skip
def test_truth_is_that_of_jmespath(given: Any, expected: bool) -> None:
    assert truthy(given) is expected
    assert value("!x", {"x": given}) is not expected


# What an expression tells about itself


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lookup.location.country_code", ["lookup.location.country_code"]),
        ("b || a", ["b", "a"]),
        ("a && a.b && a", ["a", "a.b"]),
        ("'x'", []),
        ("5 > 3", []),
        ("items[0].name", ["items"]),
        ("trigger.items[?c == $.lookup.country].n", ["trigger.items", "lookup.country"]),
        ("items[*].name", ["items"]),
        ("items[].name", ["items"]),
        ("by_id.*.name", ["by_id"]),
        ("{x: a.b, y: [c, `1`]}", ["a.b", "c"]),
        ("a.{x: b.c}", ["a", "a.b.c"]),
        ("a | b", ["a.b"]),
        ("a | $.b", ["a", "b"]),
        ("a | 'x'", ["a"]),
        ("@.a.b", ["a.b"]),
        ("$.a", ["a"]),
        ("$ | @ | a", ["a"]),
        ("(a.b).c", ["a.b.c"]),
        ("(a || b).c", ["a", "b"]),
        ("length(a.b)", ["a.b"]),
        ("map(&name, people)", ["people"]),
        ("map(&[name, $.x], people)", ["x", "people"]),
        ("sort_by(people, &age)[0]", ["people"]),
        ("!a.b", ["a.b"]),
        ("@", ["@"]),
        ("$", ["@"]),
        ("*", ["@"]),
        ("keys(@)", ["@"]),
        ("items[?@ == $]", ["items", "@"]),
        ("[0]", ["@"]),
        ("[*].a", ["@"]),
        ("a == @", ["a", "@"]),
    ],
)
def test_references_are_what_is_read_from_the_root_in_order(text: str, expected: list[str]) -> None:
    found = expressions.compile(text).references
    assert [".".join((reference.root, *reference.path)) for reference in found] == expected


def test_a_reference_knows_its_place_and_its_quotes() -> None:
    first, second = expressions.compile('a.b == "my-step".x').references
    assert (first.root, first.path, first.quoted, first.position) == ("a", ("b",), False, 0)
    assert (second.root, second.path, second.quoted, second.position) == ("my-step", ("x",), True, 7)
    assert expressions.compile("length(@)").references[0].root == WHOLE_SCOPE


@pytest.mark.parametrize(
    ("text", "path"),
    [("a", ("a",)), ("a.b.c", ("a", "b", "c")), ('"x-y".z', ("x-y", "z")), ("a[0]", None), ("$.a", None),
     ("'a'", None), ("a.*", None), ("a || b", None)],
)  # fmt: skip
def test_an_expression_of_names_and_dots_alone_has_a_path(text: str, path: tuple[str, ...] | None) -> None:
    assert expressions.compile(text).path == path


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('status == "active"', [10]),
        ('"active" != status', [0]),
        ('items[?c == "DE"]', [12]),
        ('a == "x" || b == "y"', [5, 17]),
        ('contains(tags, "vip")', [15]),
        ('starts_with(name, "A")', [18]),
        ('join(", ", names)', [5]),
        ("status == `active`", [10]),
        ("status == 'active'", []),
        ("\"first-name\" == 'Ann'", [0]),
        ("items[?\"first-name\" == 'Ann']", []),
        ('5 == "y"', [5]),
        ('"nobody" || a == "x"', [17]),
        ('trigger | x == "y"', [15]),
        ('"my-step".x == "other-step".y', []),
        ('contains("my-list", a)', []),
        ('a == `"x"`', []),
    ],
)
def test_a_name_in_double_quotes_where_a_string_is_usual_is_told(text: str, places: list[int]) -> None:
    expression = expressions.compile(text)
    found = [position for position, _ in expression.warnings]
    found += [reference.position for reference in expression.references if reference.compared]
    assert sorted(found) == places


def test_a_name_that_is_compared_here_and_read_there_is_both() -> None:
    found = expressions.compile('"x" == a || "x"').references
    assert [(reference.root, reference.compared) for reference in found] == [
        ("x", True), ("a", False), ("x", False),
    ]  # fmt: skip


def test_a_word_in_backticks_still_is_a_string_as_it_once_was() -> None:
    assert value("`active`") == "active"
    assert value("` active`") == "active"


# What evaluation promises


def test_the_scope_can_be_any_mapping_and_is_never_changed() -> None:
    scope = collections.ChainMap[str, Any]({"a": {"b": [3, 1, 2]}}, {"c": 1})
    before = copy.deepcopy(dict(scope))
    assert expressions.compile("[sort(a.b), c, merge(a, {x: c}), reverse(a.b), a.b[]]").evaluate(scope) == [
        [1, 2, 3], 1, {"b": [3, 1, 2], "x": 1}, [2, 1, 3], [3, 1, 2],
    ]  # fmt: skip
    assert dict(scope) == before


def test_what_is_no_json_at_all_is_an_error() -> None:
    for odd in ((1,), {1, 2}, b"x", object()):
        assert code_of("x", {"x": odd}) == "wrong_type"
        assert code_of("[x]", {"x": odd}) == "wrong_type"


def test_the_expressions_of_the_largest_definition_are_compiled_once_for_all_its_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[str] = []
    parse = expressions.parser.parse

    def counted(text: str) -> Any:
        compiled.append(text)
        return parse(text)

    monkeypatch.setattr(expressions.parser, "parse", counted)
    length = checks.MAX_EXPRESSION_CHARACTERS // checks.MAX_EXPRESSIONS
    texts = [f"largest.x{number}".ljust(length) for number in range(checks.MAX_EXPRESSIONS)]
    for _row in range(3):
        for text in texts:
            expressions.compile(text)
    assert compiled == texts
    # And what others compile in between pushes out but what is not asked for any more.
    for number in range(10 * len(texts)):
        expressions.compile(f"other.x{number}".ljust(length))
        if number % 5 == 0:
            expressions.compile(texts[0])
    assert compiled.count(texts[0]) == 1 and len(compiled) == 11 * len(texts)
    expressions.compile(texts[1])
    assert compiled.count(texts[1]) == 2


def test_an_expression_is_compiled_once_and_equal_by_its_text() -> None:
    assert expressions.compile("a.b") is expressions.compile("a.b")
    assert expressions.compile("a.b") != expressions.compile("a. b")
    with pytest.raises(AttributeError):
        expressions.compile("a.b").text = "c"  # type: ignore[misc]


# Bounds


@pytest.mark.parametrize(
    ("opening", "closing", "deepest"), [("(", ")", 49), ("[", "]", 49), ("!", "", 49), ("abs(", ")", 49)]
)
def test_an_expression_has_at_most_50_levels(opening: str, closing: str, deepest: int) -> None:
    expressions.compile(opening * deepest + "a" + closing * deepest)
    with pytest.raises(ExpressionError) as caught:
        expressions.compile(opening * (deepest + 1) + "a" + closing * (deepest + 1))
    assert caught.value.code == "too_deep"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a" * 2049, "expression_too_long"),
        ("(" * 5000 + "a" + ")" * 5000, "expression_too_long"),
        ("!" * 5000 + "a", "expression_too_long"),
        ("(" * 1000 + "a" + ")" * 1000, "too_deep"),
        ("(" * 2000, "too_deep"),
        ("!" * 2000 + "a", "too_deep"),
        ("[" * 1000 + "a" + "]" * 1000, "too_deep"),
        ("{a:" * 500 + "a" + "}" * 500, "too_deep"),
        ("a" + "[*]" * 600, "too_deep"),
        ("a" + "[]" * 900, "too_deep"),
        ("a" + ".*" * 900, "too_deep"),
        ("a" + "[?b]" * 400, "too_deep"),
        ("a[?" * 600, "too_deep"),
        ("a" + "[:]" * 600, "too_deep"),
        ("a" + "==a" * 600, "too_deep"),
        ("abs(" * 400 + "a" + ")" * 400, "too_deep"),
        ("map(&" * 300, "too_deep"),
        ("`" + "[" * 1000 + "]" * 1000 + "`", "too_deep"),
        ("`" + '{"a":' * 300 + "1" + "}" * 300 + "`", "too_deep"),
    ],
    ids=lambda text: text[:12],
)
def test_a_text_too_long_or_too_deep_is_refused_before_it_is_followed(text: str, code: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        expressions.compile(text)
    assert caught.value.code == code and caught.value.position is not None


@pytest.mark.parametrize(
    "text",
    ["a" * 2048, ".".join("a" * 1000), "||".join("a" * 600), "&&".join("a" * 600), "|".join("a" * 1000),
     "a" + "[0]" * 600, "[" + ",".join("a" * 1000) + "]", "(" * 40 + "a" + ")" * 40, "!" * 40 + "a",
     "`[" + "[]," * 600 + "[]]`", "'" + "[" * 2000 + "'", '`"' + "[" * 2000 + '"`'],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_a_long_text_that_is_not_deep_is_fine(text: str) -> None:
    value(text)


DOUBLED = "|".join(["[@,@]"] * 40)
MANY: dict[str, Any] = {
    "word": "x" * 1000,
    "large": "x" * 600_000,
    "other": "x" * 599_999 + "y",
    "numbers": list(range(2000)),
    "more": list(range(200_000)),
    "rows": [{"n": number, "s": str(number)} for number in range(2000)],
    "objects": [{} for _ in range(150_000)],
    "names": {f"n{number}": number for number in range(50_000)},
    "names_too": {f"n{number}": number for number in range(1, 50_001)},
}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("word | " + DOUBLED, "output_too_large"),
        ("{a: word} | " + "|".join(["{a: @, b: @}"] * 40), "output_too_large"),
        ("word | " + "|".join(["join('', [@, @])"] * 40), "output_too_large"),
        ("word | " + "|".join(["to_string([@, @])"] * 20), "output_too_large"),
        ("numbers | " + "|".join(["[@, @][]"] * 40), "too_many_nodes"),
        (f"to_string(word | {DOUBLED})", "output_too_large"),
        (f"(word | {DOUBLED}) == (word | {DOUBLED})", "too_many_nodes"),
        (f"contains([word | {DOUBLED}], word | {DOUBLED})", "too_many_nodes"),
        ("[large, large]", "output_too_large"),
        ("map(&$.large, numbers)", "output_too_large"),
        ("word | " + "|".join(["[@]"] * 210), "too_deep"),
        ("(word | " + "|".join(["[@]"] * 205) + ") == (word | " + "|".join(["[@]"] * 205) + ")", "too_deep"),
        ("objects", "too_many_nodes"),
        ("more[*].x", "too_many_nodes"),
        ("rows[*].[$.rows[*].n]", "too_many_nodes"),
        ("map(&map(&@, $.numbers), numbers)", "too_many_nodes"),
        ("rows[?length($.rows[?n > 5]) > 3]", "too_many_nodes"),
        ("sort(more)", "too_many_nodes"),
        ("map(&sort($.numbers), numbers)", "too_many_nodes"),
        ("map(&sort_by($.rows, &n), rows)", "too_many_nodes"),
        ("map(&max($.numbers), numbers)", "too_many_nodes"),
        ("map(&sum($.numbers), numbers)", "too_many_nodes"),
        ("map(&reverse($.large), numbers) | length(@)", "too_many_nodes"),
        ("map(&keys($.names), numbers) | length(@)", "too_many_nodes"),
        ("map(&values($.names), numbers) | length(@)", "too_many_nodes"),
        ("map(&merge($.names, $.names), numbers) | length(@)", "too_many_nodes"),
        ("map(&to_string($.names), numbers) | length(@)", "too_many_nodes"),
        ("map(&join('', [$.large]), numbers) | length(@)", "too_many_nodes"),
        ("map(&to_number($.large), numbers) | length(@)", "too_many_nodes"),
        ("map(&($.more[1:]), numbers) | length(@)", "too_many_nodes"),
        ("numbers[?contains($.large, 'xy')]", "too_many_nodes"),
        ("numbers[?contains($.more, 'y')]", "too_many_nodes"),
        ("numbers[?$.large == $.other]", "too_many_nodes"),
        ("numbers[?$.large < $.other]", "too_many_nodes"),
        ("numbers[?starts_with($.large, $.other)]", "too_many_nodes"),
        ("numbers[?ends_with($.large, $.other)]", "too_many_nodes"),
        ("numbers[?max([$.large, $.other])]", "too_many_nodes"),
        ("numbers[?$.names == $.names_too]", "too_many_nodes"),
    ],
    ids=lambda text: text[:40],
)  # fmt: skip
def test_a_bomb_is_refused_by_what_it_would_do(text: str, code: str) -> None:
    assert code_of(text, MANY) == code


def test_ordinary_work_on_a_thousand_rows_is_well_within_the_limits() -> None:
    budget = Budget()
    scope = {"rows": [{"n": n, "name": f"person {n}", "tags": ["a", "b"]} for n in range(1000)]}
    assert len(value("rows[?n >= 500 && contains(tags, 'a')].{name: name, n: n}", scope, budget)) == 500
    assert len(value("sort_by(rows, &name)[:10].name", scope, budget)) == 10
    assert value("sum(rows[*].n)", scope, budget) == 499_500
    assert value("join(', ', rows[*].name) | length(@) > 1000", scope, budget) is True
    assert budget.nodes_left > 50_000


def test_a_budget_is_shared_by_all_that_is_charged_to_it() -> None:
    budget = Budget(nodes=100, output_bytes=1000)
    value("a > 5", SCOPE, budget)
    once = 100 - budget.nodes_left
    assert 0 < once < 10
    assert 1000 - budget.output_left == len("true")
    for _ in range(100 // once - 1):
        value("a > 5", SCOPE, budget)
    assert code_of("a > 5", SCOPE, budget) == "too_many_nodes"


def test_a_result_that_is_refused_leaves_the_output_to_others() -> None:
    budget = Budget(nodes=1000, output_bytes=1000)
    assert code_of("large", MANY, budget) == "output_too_large"
    assert budget.output_left == 1000 and not budget.exhausted
    assert value("rows[0].n", MANY, budget) == 0


def test_a_budget_whose_nodes_ran_out_is_spent_and_says_so() -> None:
    budget = Budget(nodes=1000)
    assert code_of("rows[*].n", MANY, budget) == "too_many_nodes"
    assert budget.exhausted and budget.nodes_left == 0
    assert code_of("word", MANY, budget) == "too_many_nodes"


def test_a_budget_that_is_used_up_to_the_last_node_did_not_run_out() -> None:
    budget = Budget(nodes=2)
    assert value("a", {"a": 1}, budget) == 1
    budget.spend(budget.nodes_left)
    assert budget.nodes_left == 0 and not budget.exhausted


def test_an_evaluation_has_100_000_nodes_and_a_mebibyte() -> None:
    budget = Budget()
    assert (budget.nodes_left, budget.output_left) == (100_000, 1_048_576)


@pytest.mark.parametrize(
    ("given", "size"),
    [(None, 4), (True, 4), (False, 5), (-12, 3), (1.5, 3), ("ab", 4), ("é", 4), ("🎉", 6),
     ('"', 4), ("\n", 4), ([], 2),
     ({}, 2), ([1, 2], 5), ([[1], []], 8), ({"a": 1, "é": None}, 17)],
)  # fmt: skip
def test_output_is_counted_in_bytes_of_compact_json(given: Any, size: int) -> None:
    budget = Budget(output_bytes=size)
    assert value("x", {"x": given}, budget) == given
    assert budget.output_left == 0
    assert code_of("x", {"x": given}, Budget(output_bytes=size - 1)) == "output_too_large"


SHARED: dict[str, Any] = {
    "an array": [[n] for n in range(50)],
    "a flat array": list(range(1000)),
    "an object": {f"k{n}": [n] for n in range(50)},
    "a flat object": {f"k{n}": n for n in range(1000)},
}


@pytest.mark.parametrize("case", SHARED)
def test_parts_that_are_shared_count_as_often_as_they_would_be_written_and_are_looked_at_once(
    case: str,
) -> None:
    def counted(parts: list[Any]) -> tuple[int, int]:
        budget = Budget(nodes=10**6, output_bytes=10**8)
        value("x", {"x": parts}, budget)
        return 10**6 - budget.nodes_left, 10**8 - budget.output_left

    shared = [SHARED[case]] * 500
    apart = json.loads(json.dumps(shared))
    nodes, size = counted(shared)
    nodes_apart, size_apart = counted(apart)
    assert size == size_apart == len(json.dumps(shared, separators=(",", ":")))
    assert nodes < nodes_apart / 100
