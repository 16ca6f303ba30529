"""Validation tells of fields that are never there, and of null that passes for a value: of nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from language import expressions
from language.expressions import ExpressionError, truthy
from language.findings import Finding
from language.validation.checks import MAX_EXPRESSION_CHARACTERS
from models.automations.definitions import validate
from providers.lookup import samples
from providers.lookup.composition import compose
from providers.registry import KINDS, answer_shapes, lookup_fields
from tests.language.documents import Step, condition, step, transform

IP = step("f", "ip_lookup", field="trigger.ip")
EACH_IP = IP | {"for_each": "trigger.ips"}


def doubts(*steps: Step) -> list[Finding]:
    report = validate(
        {"name": "test", "steps": list(steps)}, (), lookup_fields=lookup_fields(), answers=answer_shapes()
    )
    assert report.errors == []
    return report.warnings


def told(*steps: Step) -> list[str]:
    return [warning.message for warning in doubts(*steps)]


# Fields


ALL = (
    "There are: ip_address, hostname, security, asn, company, location, timezone, threat, malware, verdict, "
    "credits, cached, partial, providers, sources, conflicts, sample."
)
REASONS = "f.verdict.reasons"


@pytest.mark.parametrize(
    ("expression", "place", "message"),
    [
        ("f.loction.country_code", 3, "f has no field loction. Did you mean location?"),
        ("f.country_code", 3, "f has no field country_code. Did you mean location.country_code?"),
        ("f.location.cuntry", 12, "f.location has no field cuntry. Did you mean country?"),
        (f"{REASONS}[0].cod", 22, f"{REASONS}[0] has no field cod. Did you mean code?"),
        (f"{REASONS}[*].cod", 22, f"{REASONS}[*] has no field cod. Did you mean code?"),
        (f"{REASONS}[?cod == 'x']", 20, f"{REASONS}[*] has no field cod. Did you mean code?"),
        (f"{REASONS}.code", 19, f"{REASONS} is an array: write {REASONS}[0].code or {REASONS}[*].code."),
        ("f[0].location", 2, "f is an object, which has no elements."),
        ("f | @.loction", 7, "f has no field loction. Did you mean location?"),
        ("trigger.x && [f.loction]", 17, "f has no field loction. Did you mean location?"),
        (f"sort_by({REASONS}, &cod)", 29, f"{REASONS}[*] has no field cod. Did you mean code?"),
        (f"sort_by({REASONS}, &code)[0].cod", 38, "this has no field cod. Did you mean code?"),
        ("trigger.list[?x == $.f.loction]", 24, "f has no field loction. Did you mean location?"),
        ("f.is_tor", 3, f"f has no field is_tor. {ALL}"),
        ("steps.f.output.loction", 16, "steps.f.output has no field loction. Did you mean location?"),
        ("steps.f.stauts", 9, "steps.f has no field stauts. Did you mean status?"),
        ('f."8 canaries"', 3, f"f has no such field. {ALL}"),
    ],
)
def test_a_field_that_an_answer_never_has_is_told_with_what_was_meant(
    expression: str, place: int, message: str
) -> None:
    assert doubts(IP, transform("t", expression)) == [
        ("/steps/1/config/expression", "unknown_output_field", f"At character {place}: {message}")
    ]


@pytest.mark.parametrize(
    ("expression", "place", "message"),
    [
        ("f.location", 3, "f is an array: write f[0].location or f[*].location."),
        ("f[0].loction", 6, "f[0] has no field loction. Did you mean location?"),
        ("f[].loction.city", 5, "f[*] has no field loction. Did you mean location?"),
        ("f[?location.city == 'x'] | [0].hostnam", 32, "this has no field hostnam. Did you mean hostname?"),
        ("f[*].verdict.reasons[].cod", 24, "this has no field cod. Did you mean code?"),
        ("map(&loction, f)", 6, "f[*] has no field loction. Did you mean location?"),
        ("f[*].error.code", 6, f"f[*] has no field error. {ALL}"),
        ("f[*].location.city | [0].x", 0, None),
        ("f[?location.city == 'x'] | [0].hostname", 0, None),
    ],
)
def test_the_answers_of_a_for_each_are_an_array(expression: str, place: int, message: str | None) -> None:
    expected = [] if message is None else [f"At character {place}: {message}"]
    assert told(EACH_IP, transform("t", expression)) == expected


def test_an_item_that_failed_where_the_others_go_on_has_an_error() -> None:
    assert told(EACH_IP | {"on_error": "continue"}, transform("t", "f[*].error.code")) == []


def test_an_item_of_the_answers_is_known_too() -> None:
    assert told(EACH_IP, transform("t", "item.hostnam", for_each="f")) == [
        "At character 6: item has no field hostnam. Did you mean hostname?"
    ]


def test_what_a_transform_makes_is_known_by_its_names() -> None:
    made = step("t", "transform", mapping={"country": "f.location.country", "net": "f.asn"})
    assert told(IP, made, transform("u", "t.contry")) == [
        "At character 3: t has no field contry. Did you mean country?"
    ]
    assert told(IP, made, transform("u", "t.net.nam")) == [
        "At character 7: t.net has no field nam. Did you mean name?"
    ]
    assert told(IP, transform("t", "f.location"), transform("u", "[t.city, t.cty]")) == [
        "At character 12: t has no field cty. Did you mean city?"
    ]


def test_what_a_webhook_gives_is_known_but_for_the_body() -> None:
    hook = step("hook", "webhook", url="https://example.com/")
    assert told(hook, transform("t", "[hook.body.x, hook.headers.y, hook.status]")) == []
    assert told(hook, transform("t", "hook.json")) == [
        "At character 6: hook has no field json. There are: status, headers, body."
    ]


@pytest.mark.parametrize(
    ("made", "fields"),
    [
        (condition("s"), {"result"}),
        (step("s", "delay", days=1), {"until"}),
        (step("s", "wait"), {"resumed", "body", "at"}),
        (step("s", "remember", key="x", ttl=60), {"seen", "first_at", "count"}),
        (step("s", "emit", event="workflow.alert"), {"event_id", "webhooks"}),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)
def test_what_other_steps_give_is_known(made: Step, fields: set[str]) -> None:
    assert told(made, transform("t", f"[{', '.join(f's.{name}' for name in fields)}]")) == []
    [message] = told(made, transform("t", "s.output"))
    assert set(message.partition("There are: ")[2].rstrip(".").split(", ")) == fields


def test_a_template_and_a_field_are_looked_through_as_well() -> None:
    hook = step("hook", "webhook", url="https://example.com/", body={"a": "So {{ f.loction }}, {{ f.asn }}"})
    assert doubts(IP, hook) == [
        ("/steps/1/config/body/a", "unknown_output_field",
         "At character 9: f has no field loction. Did you mean location?")
    ]  # fmt: skip
    assert doubts(IP, step("g", "domain_lookup", field="f.compny.domain")) == [
        ("/steps/1/config/field", "unknown_output_field",
         "At character 3: f has no field compny. Did you mean company?")
    ]  # fmt: skip


def test_without_the_answers_nothing_is_known() -> None:
    document = {"name": "test", "steps": [IP, transform("t", "f.loction")]}
    assert validate(document, ()).warnings == []


def parts(value: Any, place: str) -> Iterator[str]:
    """Every way into a value, as an expression."""
    yield place
    if isinstance(value, dict):
        for name, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from parts(inner, f"{place}.{json.dumps(name)}")
    elif isinstance(value, list):
        yield from (f"{place}[*]", f"{place}[]")
        for inner in value:  # pyright: ignore[reportUnknownVariableType]
            yield from parts(inner, f"{place}[0]")
            yield from parts(inner, f"{place}[]")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_nothing_that_a_full_answer_has_is_told_of(kind: str) -> None:
    chosen = KINDS[kind]
    query = chosen.normalise(chosen.example, "")
    outcomes = samples.add_sample(chosen, [])
    answer = compose(chosen, query, outcomes, datetime(2026, 1, 1, tzinfo=UTC)).answer() | {"sample": True}
    places = [*dict.fromkeys(parts(answer, "f"))]
    assert len(places) > 10
    if kind != "validate":  # which no step looks up
        lookup = step("f", f"{kind}_lookup", field="trigger.x")
        found = [
            told(lookup, step("t", "transform", mapping=dict(enumerated(places, at)))) for at in range(3)
        ]
        assert found == [[], [], []]


def enumerated(places: list[str], at: int) -> Iterator[tuple[str, str]]:
    for number, place in enumerate(places[at::3]):
        yield f"k{number}", place


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_no_field_that_a_source_can_fill_is_told_of(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(set(KINDS) - {"validate"})))
    path = data.draw(st.sampled_from(sorted(lookup_fields()[kind])))
    lookup = step("f", f"{kind}_lookup", field="trigger.x")
    assert told(lookup, transform("t", f"f.{path}")) == []
    each = lookup | {"for_each": "trigger.xs"}
    assert told(each, transform("t", f"[f[0].{path}, f[*].{path}, f[].{path}, map(&{path}, f)]")) == []


# Null


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("f.location.country_code != 'DE'", "f.location.country_code"),
        ("'DE' != f.location.country_code", "f.location.country_code"),
        ("!(f.location.country_code == 'DE')", "f.location.country_code"),
        ("f.location && f.location.country_code != 'DE'", "f.location.country_code"),
        ("f.location.country_code || f.location.country_code != 'DE'", "f.location.country_code"),
        ("f.security.is_vpn != true", "f.security.is_vpn"),
        ("!(f.threat.abuse_score > 50)", "f.threat.abuse_score"),
        ("trigger.country != 'DE'", "trigger.country"),
        ("trigger.a && trigger.b != 1", "trigger.b"),
        ("trigger.a == 1 || trigger.a != 2", "trigger.a"),
        ("request.headers.x != 'y'", "request.headers.x"),
        ("f.location | country_code != 'DE'", "f.location.country_code"),
        ("!(trigger.a && trigger.b == 1)", "trigger.b"),
        ('trigger."a b" != 1', "the value"),
        ('trigger."a-b" != 1', 'trigger."a-b"'),
        ("hook.body.state != 'done'", "hook.body.state"),
        ("t.country != 'DE'", "t.country"),
        ("steps.f.error.code != 'timeout'", "steps.f.error.code"),
        ("steps.f.output.verdict.level != 'clean'", "steps.f.output.verdict.level"),
    ],
)  # fmt: skip
def test_null_that_passes_for_another_value_is_told_with_what_to_write(expression: str, value: str) -> None:
    hook = step("hook", "webhook", url="https://example.com/")
    made = step("t", "transform", mapping={"country": "f.location.country", "state": "'x'"})
    [warning] = doubts(IP, hook, made, condition("c", expression))
    assert warning[:2] == ("/steps/3/config/expression", "null_trap")
    assert warning.message.partition(": ")[2] == (
        f"{value} may be null, and this is true then: write {value} != null && …, or {value} == null || … if "
        "that is meant."
    )


@pytest.mark.parametrize(
    "expression",
    [
        "f.location.country_code == 'DE'",
        "f.location.country_code && f.location.country_code != 'DE'",
        "f.location.country_code != 'DE' && f.location.country_code",
        "f.location.country_code != null && f.location.country_code != 'DE'",
        "f.location.country_code == null || f.location.country_code != 'DE'",
        "!f.location.country_code || f.location.country_code != 'DE'",
        "(f.location.country_code || '') != 'DE'",
        "not_null(f.location.country_code, '') != 'DE'",
        "type(trigger.x) == 'string' && trigger.x != 'y'",
        "trigger.x > 3 && trigger.x != 5",
        "starts_with(trigger.x, 'y') && trigger.x != 'yes'",
        "trigger.x == 'a' && trigger.x != 'b'",
        "trigger.a && trigger.b && (trigger.a != 1 || trigger.b != 2)",
        "f.location.country_code != null",
        "f.location.country_code != trigger.country",
        "f.verdict.level != 'clean'",
        "f.ip_address != '1.1.1.1'",
        "hook.status != 200",
        "run.id != 'x'",
        "workflow.name != 'x'",
        "steps.f.status != 'failed'",
        "t.state != 'x'",
        "t.n != 5",
        "trigger.rows[?status != 'closed']",
        "f.threat.abuse_score > 50",
        "f.threat.abuse_score > 50 && trigger.amount < 10",
        "length(trigger.rows[?n > 5]) != 0",
        "!f.security.is_vpn",
    ],
)  # fmt: skip
def test_null_that_cannot_be_or_is_thought_of_is_not_told_of(expression: str) -> None:
    hook = step("hook", "webhook", url="https://example.com/")
    made = step("t", "transform", mapping={"state": "'x'", "n": "length(trigger.x)"})
    assert told(IP, hook, made, condition("c", expression)) == []


def test_an_order_that_is_kept_as_null_is_told_of_where_it_is_kept() -> None:
    told_of = (
        "f.threat.abuse_score may be null, and this gives null then: write f.threat.abuse_score != null && …."
    )
    risky = step("t", "transform", mapping={"risky": "f.threat.abuse_score > 50"})
    assert told(IP, risky) == [f"At character 1: {told_of}"]
    assert told(IP, transform("t", "{risky: f.threat.abuse_score > 50}")) == [f"At character 9: {told_of}"]
    guarded = "f.threat.abuse_score != null && f.threat.abuse_score > 50"
    assert told(IP, step("t", "transform", mapping={"risky": guarded})) == []
    assert told(IP, transform("t", "trigger.rows[?n > 50]")) == []
    assert told(IP, transform("t", "'x'") | {"if": "f.threat.abuse_score > 50"}) == []


def test_null_in_the_elements_of_an_answer_is_told_of_within_their_filter() -> None:
    assert told(EACH_IP, transform("t", "f[?location.country_code != 'DE'].ip_address")) == [
        "At character 4: location.country_code may be null, and this is true then: write "
        "location.country_code != null && …, or location.country_code == null || … if that is meant."
    ]
    guarded = "f[?location.country_code && location.country_code != 'DE'].ip_address"
    assert told(EACH_IP, transform("t", guarded)) == []


@pytest.mark.parametrize(
    ("value", "guarded"), [(None, False), ("DE", False), ("FR", True), ("", True)], ids=str
)
def test_what_is_told_to_write_is_true_for_another_value_alone(value: Any, guarded: bool) -> None:
    written = expressions.compile("x != null && x != 'DE'")
    assert written.evaluate({"x": value}) is guarded
    assert expressions.compile("x == null || x != 'DE'").evaluate({"x": value}) is (value != "DE")


OPERANDS = [
    f"{'!(' * negated}trigger.{name}{test}{')' * negated}"
    for name in "ab"
    for test in (" == 1", " != 1", " > 1")
    for negated in (False, True)
]


def joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(inner, st.sampled_from(["&&", "||"]), inner).map(lambda three: f"({' '.join(three)})")


@given(text=st.recursive(st.sampled_from(["trigger.a", "trigger.b", *OPERANDS]), joined, max_leaves=6))
@settings(max_examples=150)
def test_a_condition_that_nothing_is_told_of_is_false_where_nothing_is_known(text: str) -> None:
    if not doubts(condition("c", text)):
        assert not truthy(expressions.compile(text).evaluate({"trigger": {}}))


# Cost


@pytest.mark.parametrize(
    "text",
    ["trigger[?x" * 30 + "]" * 30, "(trigger.a && " * 20 + "trigger.b != 1" + ")" * 20, "!" * 40 + "trigger",
     "trigger.a != 1 || " * 100 + "trigger.b", "map(&" * 20 + "trigger" + ", trigger)" * 20],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_a_deep_expression_is_followed_once(text: str) -> None:
    try:
        expressions.compile(text)
    except ExpressionError as error:
        raise AssertionError(error.message) from error
    doubts(transform("t", text))


def test_a_definition_as_large_as_can_be_is_followed() -> None:
    long = "trigger.x != 1 || " * 100 + "trigger.y"
    count = MAX_EXPRESSION_CHARACTERS // len(long)
    assert len(doubts(*(transform(f"s{n}", long) for n in range(count)))) == 100
