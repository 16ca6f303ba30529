"""Templates: what they fill in, what they refuse, and what they tell about themselves."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from yarl import URL

from language.expressions import Budget, ExpressionError
from language.templates import compile_template, read_template

SCOPE: dict[str, Any] = {
    "name": "Ann",
    "n": 3,
    "half": 1.5,
    "whole": 2.0,
    "yes": True,
    "null": None,
    "list": [1, {"a": "ö"}],
    "object": {"a": {"b": 1}},
    "braces": "{{ name }}",
    "quotes": '"\\\n',
    "secrets": {"TOKEN": "t0p", "my-key": "k", "other": {"deep": 1}},
}


def rendered(value: Any, scope: dict[str, Any] | None = None, budget: Budget | None = None) -> Any:
    return compile_template(value).render(SCOPE if scope is None else scope, budget)


def refused(value: Any) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        compile_template(value)
    return caught.value


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ name }}", "Ann"),
        ("{{name}}", "Ann"),
        ("{{ n }}", 3),
        ("{{ half }}", 1.5),
        ("{{ yes }}", True),
        ("{{ missing }}", None),
        ("{{ list }}", [1, {"a": "ö"}]),
        ("{{ object }}", {"a": {"b": 1}}),
        ("{{ length(list) > 1 }}", True),
        ("{{ 5 }}", 5),
        ("{{\n name\n}}", "Ann"),
    ],
)
def test_a_string_that_is_one_template_becomes_the_value_with_its_type(
    template: str, expected: object
) -> None:
    result = rendered(template)
    assert result == expected and type(result) is type(expected)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("Hello {{ name }}!", "Hello Ann!"),
        (" {{ name }}", " Ann"),
        ("{{ name }}{{ n }}", "Ann3"),
        ("{{ name }} {{ missing }}.", "Ann ."),
        ("<{{ null }}>", "<>"),
        ("n={{ n }} half={{ half }} whole={{ whole }}", "n=3 half=1.5 whole=2.0"),
        ("yes={{ yes }} no={{ !yes }}", "yes=true no=false"),
        ("list: {{ list }}", 'list: [1,{"a":"ö"}]'),
        ("{{ object }} {{ quotes }}", '{"a":{"b":1}} "\\\n'),
        ("{{ [quotes] }} ", '["\\"\\\\\\n"] '),
        ("🎉{{ name }}é", "🎉Anné"),
        ("{ {{ name }} }", "{ Ann }"),
        ("{{{ name: name }}}", {"name": "Ann"}),
        ("a {{ {a: {b: name}} }} b", 'a {"a":{"b":"Ann"}} b'),
        ("a {{ {a: {b: name}}}} b", 'a {"a":{"b":"Ann"}} b'),
    ],
)
def test_within_a_longer_string_null_is_empty_strings_are_themselves_and_all_else_is_json(
    template: str, expected: object
) -> None:
    assert rendered(template) == expected


@pytest.mark.parametrize("text", ["", "plain", "{", "}", "}}", "{ {name} }", "{%name%}", "${name}", "{0}",
"{name.__class__}",
                                  "{:>999999999}", "%s", "<%= 7 %>", "#{7}", "{ { name } }"])  # fmt: skip
def test_text_without_two_braces_is_left_alone(text: str) -> None:
    template = compile_template(text)
    assert template.render(SCOPE) == text and template.placeholders == ()


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ '{{' }}", "{{"),
        ("{{ '}}' }}", "}}"),
        ("a {{ '{{' }} name {{ '}}' }}", "a {{ name }}"),
        ("{{ 'it\\'s }}' }}", "it's }}"),
        ('{{ `"}}"` }}!', "}}!"),
        ('{{ {"}}": name} }}', {"}}": "Ann"}),
        ("{{ join('}}', ['a', 'b']) }}", "a}}b"),
        ('{{ `{"a": {"b": 1}}` }}', {"a": {"b": 1}}),
    ],
)
def test_braces_within_quotes_are_text(template: str, expected: object) -> None:
    assert rendered(template) == expected


def test_what_is_filled_in_is_never_read_as_a_template() -> None:
    assert rendered("{{ braces }}") == "{{ name }}"
    assert rendered("<{{ braces }}>{{ name }}") == "<{{ name }}>Ann"
    assert rendered("{{ a }}{{ b }}", {"a": "{", "b": "{ name }}", "name": "x"}) == "{{ name }}"


def test_a_structure_keeps_its_shape_and_its_keys() -> None:
    structure = {
        "to": ["{{ name }}", {"{{ name }}": "x{{ n }}", "n": 1, "none": None}],
        "fixed": {"a": [1, 2.5, True]},
        "": "{{ n }}",
    }
    assert rendered(structure) == {
        "to": ["Ann", {"{{ name }}": "x3", "n": 1, "none": None}],
        "fixed": {"a": [1, 2.5, True]},
        "": 3,
    }
    assert list(rendered(structure)) == ["to", "fixed", ""]
    assert structure["to"][0] == "{{ name }}"


@pytest.mark.parametrize("value", [None, True, 0, 1.5, [], {}, "x", [[{"a": None}]]])
def test_what_has_no_template_in_it_is_itself(value: Any) -> None:
    assert rendered(value) == value


@pytest.mark.parametrize(
    ("template", "code", "position"),
    [
        ("{{7*7}}", "bad_expression", 3),
        ("{{ 7*7 }}", "bad_expression", 4),
        ("{{}}", "bad_expression", 2),
        ("x {{ }}", "bad_expression", 5),
        ("ab {{ name", "bad_expression", 3),
        ("{{ name }", "bad_expression", 0),
        ("{{ 'name }}", "bad_expression", 0),
        ("{{ name }} {{ x", "bad_expression", 11),
        ("{{ {a: b }}", "bad_expression", 0),
        ("{{ {{ name }} }}", "bad_expression", 3),
        ("{{ name.__class__() }}", "unknown_function", 8),
        ("{{ config.items() }}", "wrong_arity", 10),
        ("{{ ''.__class__.__mro__[1:] | f(@) }}", "unknown_function", 30),
        ("{{ self|attr('x') }}", "unknown_function", 8),
        ("é {{ abs() }}", "wrong_arity", 5),
        ("{{ " + "(" * 100 + " }}", "too_deep", None),
        ("{{ " + "a" * 3000 + " }}", "expression_too_long", None),
    ],
)  # fmt: skip
def test_a_bad_template_is_refused_with_a_place_in_the_string(
    template: str, code: str, position: int | None
) -> None:
    error = refused(template)
    assert error.code == code
    assert position is None or error.position == position


def test_the_pointer_of_an_error_leads_to_the_string() -> None:
    assert refused("{{").pointer == ""
    assert refused({"a": [0, "{{"]}).pointer == "/a/1"
    assert refused({"a/b": {"c~d": "{{"}}).pointer == "/a~1b/c~0d"
    with pytest.raises(ExpressionError) as caught:
        rendered({"a": [0, "ok {{ name }} {{ sum(name) }}"]})
    assert (caught.value.code, caught.value.pointer) == ("wrong_type", "/a/1")
    assert caught.value.position == len("ok {{ name }} {{ sum(")


def test_a_template_tells_what_it_reads_and_where() -> None:
    template = compile_template(
        {
            "url": "https://x/{{ trigger.id }}?k={{ secrets.KEY }}",
            "body": ["{{ a.b || trigger.id }}", "{{ secrets.KEY }}"],
        }
    )
    assert [(reference.root, reference.path) for reference in template.references] == [
        ("trigger", ("id",)), ("a", ("b",)),
    ]  # fmt: skip
    assert template.secrets == ("KEY",)
    assert [(each.pointer, each.position, each.secret) for each in template.placeholders] == [
        ("/url", 12, None), ("/url", 31, "KEY"), ("/body/0", 2, None), ("/body/1", 2, "KEY"),
    ]  # fmt: skip
    assert template.placeholders[2].expression.text == " a.b || trigger.id "


# Secrets


def test_secrets_are_filled_in() -> None:
    assert rendered("Bearer {{ secrets.TOKEN }}") == "Bearer t0p"
    assert rendered("{{ secrets.TOKEN }}") == "t0p"
    assert rendered('{{ secrets."my-key" }}') == "k"
    assert compile_template("{{ secrets.TOKEN }}").secrets == ("TOKEN",)
    assert compile_template("{{ secrets.TOKEN }}").references == ()


@pytest.mark.parametrize(
    "expression",
    [
        "secrets", "secrets.*", "secrets.TOKEN.x", "secrets[0]", "keys(secrets)", "to_string(secrets.TOKEN)",
        "reverse(secrets.TOKEN)", "join('', ['Bearer ', secrets.TOKEN])", "[secrets.TOKEN]",
        "secrets.TOKEN || 'x'",
        "secrets | TOKEN", "secrets | *", "@.secrets.TOKEN", "$.secrets.TOKEN", "(secrets).*",
        "secrets.[TOKEN]",
        "list[?a == $.secrets.TOKEN]", "list[*].[$.secrets]", "map(&$.secrets.TOKEN, list)",
        "@ | secrets.TOKEN",
        "secrets.TOKEN == 't0p'", '"secrets".*', "!secrets.TOKEN", "{a: secrets}", "secrets.{a: TOKEN}",
        "$ | @ | secrets",
    ],
)  # fmt: skip
def test_a_secret_can_be_named_and_nothing_else_be_done_with_it(expression: str) -> None:
    error = refused(["{{ " + expression + " }}"])
    assert (error.code, error.pointer, error.position) == ("bad_secret_reference", "/0", 2)


@pytest.mark.parametrize(
    "expression",
    ["@", "$", "*", "values(@)", "to_string(@)", "keys($)", "*.TOKEN", "@ | *", "list[*].[$]",
     "merge(@, {a: n})",
     "not_null(missing, @).secrets", "(missing || @).secrets.TOKEN", "[@][0].secrets", "{a: @}.a.secrets",
     "[$] | [*].secrets", "map(&@.secrets, [@])", "values({a: @})[*].secrets.TOKEN",
     "sort_by([@], &name)[0].secrets",
     "[@][?secrets]", "[@][].secrets", "to_array(@)[].secrets"],
)  # fmt: skip
def test_no_expression_reaches_the_secrets_by_another_way(expression: str) -> None:
    written = json.dumps(rendered("{{ " + expression + " }}"))
    assert "t0p" not in written and "secrets" not in written.replace("{{", "")


def test_a_secret_that_is_not_there_is_an_error_not_an_empty_string() -> None:
    for scope in ({}, {"secrets": {}}, {"secrets": None}):
        with pytest.raises(ExpressionError) as caught:
            rendered({"h": "Bearer {{ secrets.TOKEN }}"}, scope)
        assert (caught.value.code, caught.value.pointer) == ("unknown_secret", "/h")
        assert caught.value.reason == (
            "There is no secret TOKEN. Store it: POST /api/workflows/secrets, or vedette secrets set TOKEN."
        )


# Bounds


def test_the_output_of_a_template_is_bounded_as_a_whole() -> None:
    scope = {"x": "y" * 1000}
    assert len(rendered("{{ x }}," * 1000, scope)) == 1_001_000
    for template in ("{{ x }}," * 1100, ["{{ x }}"] * 1100, {str(key): "{{ [x] }}" for key in range(1100)}):
        with pytest.raises(ExpressionError) as caught:
            rendered(template, scope)
        assert caught.value.code == "output_too_large"


def test_the_work_of_a_template_is_charged_to_one_budget() -> None:
    budget = Budget(nodes=50)
    scope = {"rows": [{"n": 1}] * 10}
    assert rendered("{{ rows[*].n }}", scope, budget) == [1] * 10
    with pytest.raises(ExpressionError) as caught:
        rendered("{{ rows[*].n }} {{ rows[*].n }}", scope, budget)
    assert caught.value.code == "too_many_nodes"


def test_a_structure_nested_without_end_is_refused() -> None:
    structure: Any = "{{ name }}"
    for _ in range(5000):
        structure = [structure]
    assert refused(structure).code == "too_deep"


def lines_run(work: Callable[[], object]) -> int:
    """Return how many lines of code a piece of work runs through."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("text", ["{{", "{{ '", "}}{", "{{ ( }}", "{{ a }}", "{", "{{ {", "}} {{ '}}' }}"])
def test_many_braces_take_work_in_proportion(text: str) -> None:
    once = lines_run(lambda: read_template(text * 1000))
    assert lines_run(lambda: read_template(text * 4000)) < 5 * once


def test_all_that_is_wrong_in_a_structure_is_told_with_what_is_right() -> None:
    template, errors = read_template(
        {"a": "{{ foo( }} {{ x }} {{ 7*7 }}", "b": ["{{ y }}", "{{ z"], "c": "{{ bar() }}"}
    )
    assert [(error.pointer, error.code, error.position) for error in errors] == [
        ("/a", "bad_expression", 8), ("/a", "bad_expression", 23), ("/b/1", "bad_expression", 0),
        ("/c", "unknown_function", 3),
    ]  # fmt: skip
    assert [reference.root for reference in template.references] == ["x", "y"]


# URLs


def url(template: str, **scope: Any) -> Any:
    return compile_template(template).render(scope, for_url=True)


BASE = "https://api.example.com/v1/users/"


@pytest.mark.parametrize(
    ("template", "scope"),
    [
        (BASE + "{{ id }}/notes", {"id": ".."}),
        (BASE + "{{ id }}", {"id": ".."}),
        (BASE + "{{ id }}/notes", {"id": "."}),
        (BASE + "{{ id }}?all", {"id": ".."}),
        (BASE + "{{ id }}#x", {"id": ".."}),
        (BASE + ".{{ id }}/notes", {"id": "."}),
        (BASE + "%2e{{ id }}/notes", {"id": "."}),
        (BASE + "{{ id }}%2E/notes", {"id": "."}),
        (BASE + "{{ id }}{{ id }}/notes", {"id": "."}),
        (BASE + ".{{ id }}./notes", {"id": ""}),
        (BASE + "{{ id }}../notes", {"id": ""}),
        (BASE + "..{{ id }}/notes", {"id": ""}),
        (BASE + "{{ secrets.ID }}/notes", {"secrets": {"ID": ".."}}),
        ("{{ base }}/users/{{ id }}", {"base": "https://api.example.com/v1", "id": ".."}),
        ("https://{{ host }}/{{ id }}/x", {"host": "example.com", "id": ".."}),
    ],
)
def test_a_value_in_a_url_cannot_lead_to_another_path(template: str, scope: dict[str, Any]) -> None:
    with pytest.raises(ExpressionError) as caught:
        url(template, **scope)
    assert caught.value.code == "bad_url" and caught.value.position is not None


@pytest.mark.parametrize(
    "value", ["..", ".", "%2e%2e", "../..", "..\\..", "a/../../b", "?/../", "...", "..;x"]
)
def test_whatever_a_value_is_the_client_calls_the_path_that_was_written(value: str) -> None:
    for template in (BASE + "{{ id }}/notes", BASE + "x{{ id }}/notes", BASE + "{{ id }}x/notes"):
        try:
            written = url(template, id=value)
        except ExpressionError as error:
            assert error.code == "bad_url"
        else:
            called = URL(written).raw_path
            assert called.startswith("/v1/users/") and called.endswith("/notes") and called.count("/") == 4


@pytest.mark.parametrize(
    ("template", "scope", "expected"),
    [
        (BASE + "{{ id }}/notes", {"id": "..."}, BASE + ".../notes"),
        (BASE + "../{{ id }}", {"id": "x"}, BASE + "../x"),
        (BASE + "{{ id }}?up={{ up }}", {"id": "x", "up": ".."}, BASE + "x?up=.."),
        (BASE + "{{ id }}#/{{ up }}", {"id": "x", "up": ".."}, BASE + "x#/.."),
        ("{{ url }}", {"url": "https://example.com/a/../b"}, "https://example.com/a/../b"),
        ("{{ base }}/x", {"base": "https://example.com/a/.."}, "https://example.com/a/../x"),
    ],
)
def test_dots_that_lead_nowhere_else_and_those_of_the_author_stay(
    template: str, scope: dict[str, Any], expected: str
) -> None:
    assert url(template, **scope) == expected


@settings(max_examples=500, deadline=None)
@given(
    text=st.lists(
        st.sampled_from(
            ["{{", "}}", "{", "}", " ", "name", "n", "'", '"', "`", "\\", ".", "|", "secrets", "é", "x"]
        ),
        max_size=20,
    ).map("".join)
    | st.text()
)
def test_any_text_renders_or_is_refused_as_templates_are(text: str) -> None:
    try:
        template = compile_template({"a": [text]})
        template.render(SCOPE)
    except ExpressionError as error:
        assert error.pointer == "/a/0"
        assert error.position is not None and 0 <= error.position <= len(text)


plain = st.text(alphabet=st.characters(exclude_characters="{}", exclude_categories=["Cs"]))


@settings(deadline=None)
@given(pieces=st.lists(st.tuples(plain, plain), max_size=5), end=plain)
def test_text_around_templates_is_kept_exactly(pieces: list[tuple[str, str]], end: str) -> None:
    text = "".join(f"{before}{{{{ v{index} }}}}" for index, (before, _) in enumerate(pieces)) + end
    scope: dict[str, Any] = {f"v{index}": value for index, (_, value) in enumerate(pieces)}
    assert rendered(text, scope) == "".join(before + value for before, value in pieces) + end
