"""Validation: everything that is wrong with a document, at once, each by JSON pointer and code."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from language.definition import MAX_DEFINITION_BYTES, Definition
from language.steps import MAX_STEPS
from language.validation import checks
from language.validation.definition import MAX_FINDINGS, Document
from models.automations.automation_views import WorkflowView
from models.automations.definitions import READ_ONLY, json_schema, validate, validate_text
from models.lookups.lookups import LookupAnswer
from providers.email.answer import Breach, EmailAnswer, MailChecks, RegisteredServices, Socials
from providers.registry import lookup_fields
from tests.language.documents import URL, Found, Step, condition, errors, message, report, step, transform


def test_a_valid_document_gives_its_definition_and_status() -> None:
    found = report(transform("a"), status="draft", input_schema={"type": "object"})
    assert found.errors == found.warnings == [] and found.status == "draft"
    assert found.definition == Definition.model_validate(
        {"name": "test", "steps": [transform("a")], "input_schema": {"type": "object"}}
    )


def test_the_fields_that_nobody_can_set_are_those_of_the_view_that_are_not_of_the_document() -> None:
    # One from a list without its steps is refused, or saving it would take them away.
    of_view = WorkflowView.model_fields.keys() - {"omitted"}
    assert of_view - Document.model_fields.keys() == READ_ONLY
    assert errors(transform("a"), omitted={"omitted": True, "bytes": 1}) == {("/omitted", "unknown_field")}
    assert errors(transform("a"), version=3, webhook_url="x", runs_total=1) == set()


LOOKUPS = ["email", "phone", "company", "domain", "ip", "darkweb", "breach", "username", "websearch"]


@pytest.mark.parametrize("kind", LOOKUPS)
def test_every_kind_of_lookup_is_a_step(kind: str) -> None:
    assert errors(step("a", f"{kind}_lookup", field="trigger.x", fields=["location.city"])) == set()


SHAPES: dict[str, tuple[Any, Found]] = {
    "not an object": ([], {("", "wrong_type")}),
    "null": (None, {("", "wrong_type")}),
    "nothing": ({}, {("/name", "required")}),
    "an empty name": ({"name": " "}, {("/name", "too_short")}),
    "steps that are no array": ({"name": "x", "steps": {}}, {("/steps", "wrong_type")}),
    "a step that is no object": ({"name": "x", "steps": [5]}, {("/steps/0", "wrong_type")}),
    "a step of no type": ({"name": "x", "steps": [{"id": "a"}]}, {("/steps/0/type", "required")}),
    "a step without an id": (
        {"name": "x", "steps": [{"type": "delay", "config": {"days": 1}}]}, {("/steps/0/id", "required")},
    ),
    "too long": ({"name": "x", "description": "x" * MAX_DEFINITION_BYTES}, {("", "too_large")}),
    "too many steps": (
        {"name": "x", "steps": [transform(f"s{n}") for n in range(MAX_STEPS + 1)]},
        {("/steps", "too_many_items")},
    ),
    "no such status": ({"name": "x", "status": "on"}, {("/status", "not_allowed")}),
    "no such trigger": ({"name": "x", "trigger": {"type": "webhok"}}, {("/trigger/type", "not_allowed")}),
    "a trigger of no type": ({"name": "x", "trigger": {}}, {("/trigger/type", "required")}),
    "a trigger that is null": ({"name": "x", "trigger": None}, {("/trigger", "wrong_type")}),
}  # fmt: skip


@pytest.mark.parametrize("case", SHAPES)
def test_a_document_of_the_wrong_shape_is_refused(case: str) -> None:
    document, expected = SHAPES[case]
    found = validate(document, ())
    assert {(error.pointer, error.code) for error in found.errors} == expected
    assert found.definition is None


TYPING_ERRORS: dict[str, tuple[dict[str, Any], str, str]] = {
    "at the top": ({"stesp": []}, "/stesp", "steps"),
    "in a trigger": ({"trigger": {"type": "webhook", "deduped": "x"}}, "/trigger/deduped", "dedupe"),
    "in a signature": (
        {"trigger": {"type": "webhook", "signature": {"scheme": "github", "secret": "KEY", "heder": "x"}}},
        "/trigger/signature/heder", "header",
    ),
    "in a schedule": (
        {"status": "draft", "trigger": {"type": "schedule", "schedule": {"corn": "* * * * *"}}},
        "/trigger/schedule/corn", "cron",
    ),
    "in a step": ({"steps": [transform("a", neds=[])]}, "/steps/0/neds", "needs"),
    "in a config": (
        {"steps": [step("a", "ip_lookup", filed="trigger.ip")]}, "/steps/0/config/filed", "field",
    ),
    "in the config of a later step": (
        {"steps": [transform("a"), condition("b", els=[])]}, "/steps/1/config/els", "else",
    ),
    "in a retry": (
        {"steps": [step("a", "webhook", url=URL) | {"retry": {"max_attempt": 1}}]},
        "/steps/0/retry/max_attempt", "max_attempts",
    ),
    "in a type of step": ({"steps": [step("a", "ip_lokup")]}, "/steps/0/type", "ip_lookup"),
    "in a type of trigger": ({"trigger": {"type": "shedule"}}, "/trigger/type", "schedule"),
    "in a reference": (
        {"steps": [transform("lookup"), transform("b", "lokup.x")]}, "/steps/1/config/expression", "lookup",
    ),
    "in a root": ({"steps": [transform("a", "reqest.headers.x")]}, "/steps/0/config/expression", "request"),
    "in item": (
        {"steps": [transform("a", "itm.x", for_each="trigger")]}, "/steps/0/config/expression", "item",
    ),
    "in a step of steps": (
        {"steps": [transform("lookup"), transform("b", "steps.lokup.status")]},
        "/steps/1/config/expression", "lookup",
    ),
    "in a need": (
        {"steps": [transform("lookup"), transform("b", needs=["lokup"])]}, "/steps/1/needs/0", "lookup",
    ),
    "in a secret": (
        {"steps": [step("a", "webhook", url=URL, body={"x/y": "{{ secrets.KYE }}"})]},
        "/steps/0/config/body/x~1y", "KEY",
    ),
    "in a time zone": (
        {"status": "draft",
         "trigger": {"type": "schedule", "schedule": {"cron": "0 9 * * *", "timezone": "Europe/Berln"}}},
        "/trigger/schedule/timezone", "Europe/Berlin",
    ),
    "in a keyword of a schema": ({"input_schema": {"requried": ["a"]}}, "/input_schema/requried", "required"),
    "in a function": ({"steps": [transform("a", "lenght(trigger)")]}, "/steps/0/config/expression", "length"),
}  # fmt: skip


@pytest.mark.parametrize("case", TYPING_ERRORS)
def test_a_typing_error_is_answered_with_what_was_meant(case: str) -> None:
    document, pointer, meant = TYPING_ERRORS[case]
    [error] = validate({"name": "test", **document}, ("KEY",)).errors
    assert error.pointer == pointer and meant in error.message.split("Did you mean")[1]


FORMS: dict[str, tuple[Step, str]] = {
    "an id with a space": (transform("a b"), "[A-Za-z0-9_-]{1,64}"),
    "half a status": (step("a", "webhook", url=URL, success="20"), "[1-5]([0-9][0-9]|xx)"),
    "a header with a space": (step("a", "webhook", url=URL, headers={"a b": "x"}), "[A-Za-z0-9"),
    "no status at all": (step("a", "webhook", url=URL, success=[]), "1 or more"),
    "the trigger among the steps": (transform("a", "steps.trigger.x"), "write trigger without it"),
    "a default in double quotes": (transform("a", 'trigger.n || "unknown"'), "in single quotes"),
    "an element as a field": (step("a", "ip_lookup", field="trigger[0].ip"), "use value: {{ item[0] }}"),
    "a URL without a scheme": (step("a", "webhook", url="example.com/{{ trigger.x }}"), "https://"),
    "a number as a string": (step("a", "delay", seconds="5"), "Must be a number"),
}  # fmt: skip


@pytest.mark.parametrize("case", FORMS)
def test_what_has_the_wrong_form_is_answered_with_the_right_one(case: str) -> None:
    document, form = FORMS[case]
    assert form in message(document)


def test_a_name_of_a_step_that_cannot_be_needed_is_not_suggested_for_needs() -> None:
    assert "Did you mean" not in message(transform("a"), transform("b", needs=["triger"]))


def test_what_is_like_nothing_is_answered_with_what_there_is() -> None:
    assert "Fields are: id, name, needs" in message(transform("a", qqq=1))
    assert "Types are: email_lookup" in message(step("a", "qqq"))


def test_one_broken_step_does_not_hide_what_is_wrong_with_the_others_or_make_it_seem_wrong() -> None:
    broken = transform("a", neds=[])
    found = errors(
        broken, transform("b", "a.x"), transform("c", "nobody.x"), transform("a"), 5, transform("d", "b.x")
    )
    assert found == {
        ("/steps/0/neds", "unknown_field"),
        ("/steps/2/config/expression", "unknown_reference"),
        ("/steps/3/id", "duplicate_id"),
        ("/steps/4", "wrong_type"),
    }


def test_a_broken_trigger_does_not_hide_what_is_wrong_with_the_steps() -> None:
    found = errors(transform("b", "nobody.x"), trigger={"type": "webhook", "dedup": "x"})
    assert found == {
        ("/trigger/dedup", "unknown_field"),
        ("/steps/0/config/expression", "unknown_reference"),
    }


LOOKUP = step("ip", "ip_lookup", field="trigger.ip")
STEPS: dict[str, tuple[list[Step], Found]] = {
    "several at once": (
        [transform("a", "foo("), condition("a", "later.x"),
         step("later", "transform") | {"needs": ["nobody"]}],
        {
            ("/steps/0/config/expression", "bad_expression"),
            ("/steps/1/id", "duplicate_id"),
            ("/steps/1/config/expression", "later_step"),
            ("/steps/2/needs/0", "unknown_reference"),
            ("/steps/2/config", "expression_or_mapping"),
        },
    ),
    "a reserved id": ([transform("trigger")], {("/steps/0/id", "reserved_id")}),
    "an id with a dot": ([transform("a.b")], {("/steps/0/id", "invalid_format")}),
    "a need of itself": ([transform("a", needs=["a"])], {("/steps/0/needs/0", "needs_itself")}),
    "a need of a later step": (
        [transform("a", needs=["b"]), transform("b", needs=[])], {("/steps/0/needs/0", "later_step")},
    ),
    "steps that need each other": (
        [transform("a", needs=["c"]), transform("b", needs=["a"]), transform("c", needs=["b"])],
        {("/steps/0/needs/0", "cycle")},
    ),
    "steps that need each other by their order": (
        [transform("a", needs=["b"]), transform("b")], {("/steps/0/needs/0", "cycle")},
    ),
    "a step that reads itself": ([transform("a", "a.x")], {("/steps/0/config/expression", "reads_itself")}),
    "the status of no step": (
        [transform("a", "steps.b.status")], {("/steps/0/config/expression", "unknown_reference")},
    ),
    "wrong arity": ([transform("a", "length()")], {("/steps/0/config/expression", "wrong_arity")}),
    "an open template": (
        [step("a", "webhook", url="https://x.example/{{ trigger.")],
        {("/steps/0/config/url", "bad_expression")},
    ),
    "a template deep in a body": (
        [step("a", "webhook", url=URL, body={"list": [1, {"a/b": "{{ nobody }}"}]})],
        {("/steps/0/config/body/list/1/a~1b", "unknown_reference")},
    ),
    "a lookup of nothing": ([step("a", "ip_lookup")], {("/steps/0/config", "field_or_value")}),
    "a lookup of two things": (
        [step("a", "ip_lookup", field="trigger.ip", value="x")], {("/steps/0/config", "field_or_value")},
    ),
    "a delay of two durations": (
        [step("a", "delay", hours=1, days=1)], {("/steps/0/config", "one_duration")},
    ),
    "a delay by two ways": (
        [step("a", "delay", duration="5m", until="2026-12-24T18:00:00Z")],
        {("/steps/0/config", "one_duration")},
    ),
    "a duration that is none": (
        [step("a", "delay", duration="soon")], {("/steps/0/config/duration", "bad_duration")},
    ),
    "a duration of nothing": (
        [step("a", "delay", duration="0m")], {("/steps/0/config/duration", "out_of_range")},
    ),
    "a duration of more than a year": (
        [step("a", "delay", duration="P53W")], {("/steps/0/config/duration", "out_of_range")},
    ),
    "a duration that reads a step that is not there": (
        [step("a", "delay", duration="{{ nobody.pause }}")],
        {("/steps/0/config/duration", "unknown_reference")},
    ),
    "a delay of 366 days": ([step("a", "delay", days=366)], {("/steps/0/config/days", "out_of_range")}),
    "a delay until no time": (
        [step("a", "delay", until="noon")], {("/steps/0/config/until", "bad_timestamp")},
    ),
    "a delay until before all time": (
        [step("a", "delay", until="0001-01-01T00:00:00+14:00")], {("/steps/0/config/until", "bad_timestamp")},
    ),
    "a delay until after all time": (
        [step("a", "delay", until="9999-12-31T23:59:59-14:00")], {("/steps/0/config/until", "bad_timestamp")},
    ),
    "a delay of true seconds": (
        [step("a", "delay", seconds=True)], {("/steps/0/config/seconds", "wrong_type")},
    ),
    "a follow_redirects that is a word": (
        [step("a", "webhook", url=URL, follow_redirects="yes")],
        {("/steps/0/config/follow_redirects", "wrong_type")},
    ),
    "a delay until a time without a zone": (
        [step("a", "delay", until="2026-12-24T18:00:00")], {("/steps/0/config/until", "bad_timestamp")},
    ),
    "a URL of another scheme": (
        [step("a", "webhook", url="ftp://example.com")], {("/steps/0/config/url", "invalid_url")},
    ),
    "a URL without a host": (
        [step("a", "webhook", url="example.com")], {("/steps/0/config/url", "invalid_url")},
    ),
    "half a status": (
        [step("a", "webhook", url=URL, success="20")], {("/steps/0/config/success", "invalid_format")},
    ),
    "no status at all": (
        [step("a", "webhook", url=URL, success=[])], {("/steps/0/config/success", "too_few_items")},
    ),
    "a config by the name of the type": (
        [{"id": "a", "type": "webhook", "webhook": {"url": URL}}],
        {("/steps/0/config", "required"), ("/steps/0/webhook", "unknown_field")},
    ),
    "a header by the name of its type": (
        [step("a", "webhook", url=URL, headers={"type": "x", "x": 5})],
        {("/steps/0/config/headers/x", "wrong_type")},
    ),
    "names of headers that HTTP does not know": (
        [step("a", "webhook", url=URL, headers={"a b": "x", "": "x", "ä": "x", "a:": "x", "x-ok_1": "x"})],
        {(f"/steps/0/config/headers/{name}", "invalid_format") for name in ("a b", "", "ä", "a:")},
    ),
    "a name of 101 characters in a mapping": (
        [step("a", "transform", mapping={"k" * 101: "'x'", "k" * 100: "'x'"})],
        {(f"/steps/0/config/mapping/{'k' * 101}", "too_long")},
    ),
    "all that is wrong in a request": (
        [step("a", "webhook", url=URL,
              body={"a": "{{ foo( }}", "b": "{{ nope.x }}", "c": ["{{ secrets.NO }}", "{{ bar( }}"]})],
        {("/steps/0/config/body/a", "bad_expression"), ("/steps/0/config/body/b", "unknown_reference"),
         ("/steps/0/config/body/c/0", "unknown_secret"), ("/steps/0/config/body/c/1", "bad_expression")},
    ),
    "a misspelt name beside one that is compared": (
        [transform("a", '"nobody" || trigger.x == "y"')],
        {("/steps/0/config/expression", "unknown_reference")},
    ),
    "one bad status of several": (
        [step("a", "webhook", url=URL, success=["2xx", "9xx"])],
        {("/steps/0/config/success/1", "invalid_format")},
    ),
    "a share of more than all": (
        [{**transform("a"), "for_each": "trigger", "on_error": "continue", "on_items": {"fail_if": 1.5}}],
        {("/steps/0/on_items/fail_if", "out_of_range")},
    ),
    "a share of none": (
        [{**transform("a"), "for_each": "trigger", "on_error": "continue", "on_items": {"fail_if": 0}}],
        {("/steps/0/on_items/fail_if", "out_of_range")},
    ),
    "a word that is no share": (
        [{**transform("a"), "for_each": "trigger", "on_error": "continue", "on_items": {"fail_if": "most"}}],
        {("/steps/0/on_items/fail_if", "not_allowed")},
    ),
    "on_items without on_error": (
        [transform("a", for_each="trigger", on_items={"fail_if": "any"})],
        {("/steps/0/on_items", "misplaced_on_items")},
    ),
    "on_items without for_each": (
        [transform("a", on_error="continue", on_items={})], {("/steps/0/on_items", "misplaced_on_items")},
    ),
    "on_items of a step that has no for_each": (
        [condition("if") | {"on_items": {}}], {("/steps/0/on_items", "unknown_field")},
    ),
    "no on_error": ([transform("a", on_error="retry")], {("/steps/0/on_error", "not_allowed")}),
    "a bad id in on_error": (
        [transform("a", on_error=["b c"])], {("/steps/0/on_error/0", "invalid_format")},
    ),
    "eleven attempts": (
        [LOOKUP | {"retry": {"max_attempts": 11}}], {("/steps/0/retry/max_attempts", "out_of_range")},
    ),
    "a retry of a transform": ([transform("a", retry={})], {("/steps/0/retry", "unknown_field")}),
    "a timeout of nothing": ([LOOKUP | {"timeout": 0}], {("/steps/0/timeout", "out_of_range")}),
    "a branch to an earlier step": (
        [transform("a"), condition("if", then=["a"])], {("/steps/1/config/then/0", "earlier_step")},
    ),
    "a branch to no step": (
        [condition("if", **{"else": ["b"]})], {("/steps/0/config/else/0", "unknown_reference")},
    ),
    "a step on two branches": (
        [condition("if", then=["a"], **{"else": ["a"]}), transform("a")],
        {("/steps/0/config/else/0", "two_branches")},
    ),
    "for_each of a condition": (
        [condition("a") | {"for_each": "trigger.list"}], {("/steps/0/for_each", "unknown_field")},
    ),
    "for_each of a delay": (
        [step("a", "delay", days=1) | {"for_each": "trigger.list"}], {("/steps/0/for_each", "unknown_field")},
    ),
    "an item of nothing": (
        [transform("a", "item.x")], {("/steps/0/config/expression", "item_outside_for_each")},
    ),
    "an item in for_each": (
        [transform("a", "item.x", for_each="item.list")], {("/steps/0/for_each", "item_outside_for_each")},
    ),
    "51 at once": (
        [transform("a", "item", for_each="trigger", max_concurrency=51)],
        {("/steps/0/max_concurrency", "out_of_range")},
    ),
    "a secret in an expression": (
        [transform("a", "secrets.KEY")], {("/steps/0/config/expression", "secret_not_allowed")},
    ),
    "a secret in a lookup": (
        [step("a", "ip_lookup", value="{{ secrets.KEY }}")],
        {("/steps/0/config/value", "secret_not_allowed")},
    ),
    "a secret in a delay": (
        [step("a", "delay", until="{{ secrets.KEY }}")], {("/steps/0/config/until", "secret_not_allowed")},
    ),
    "a secret within an expression": (
        [step("a", "webhook", url=URL, body="{{ length(secrets.KEY) }}")],
        {("/steps/0/config/body", "bad_secret_reference")},
    ),
    "a secret that is not there": (
        [step("a", "webhook", url=URL + "{{ secrets.NOPE }}")], {("/steps/0/config/url", "unknown_secret")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", STEPS)
def test_steps_that_cannot_work_are_refused(case: str) -> None:
    steps, expected = STEPS[case]
    assert errors(*steps) == expected


FINE: dict[str, list[Step]] = {
    "needs of earlier steps": [transform("a"), transform("b", needs=[]), transform("c", needs=["a", "b"])],
    "all that can be read": [
        transform("a"), transform("b-c"),
        transform("d", '[a, "b-c".x, trigger, request.query.x, run.id, workflow.name, steps.a, @, $.a]'),
    ],
    "item inside for_each": [transform("a", "[item.x, trigger]", for_each="trigger.list")],
    "each item sent": [
        step("a", "webhook", url=URL, body="{{ item }}") | {"for_each": "trigger", "timeout": 5},
    ],
    "URLs that a template begins": [
        step("a", "webhook", url="{{ trigger.url }}"), step("b", "webhook", url="{{ trigger.base }}/x"),
    ],
    "all characters of a name of a header": [
        step("a", "webhook", url=URL, headers={"A-z0!#$%&'*+.^_`|~-": "x"}),
    ],
    "a step that is compared and needs double quotes": [
        transform("my-step"), transform("b", '"my-step" == trigger.x'),
    ],
    "whole numbers where fractions may be": [
        step("a", "webhook", url=URL, timeout=5) | {"timeout": 5, "retry": {"backoff": 2, "max_attempts": 1}},
    ],
    "a host that a template gives": [step("a", "webhook", url="https://{{ trigger.host }}/x")],
    "a secret in url, headers and body": [
        step("a", "webhook", url=URL + "?key={{ secrets.KEY }}", headers={"a": "{{secrets.KEY}}"},
             body=["{{ secrets.KEY }}"]),
    ],
    "statuses": [step("a", "webhook", url=URL, success=["2xx", 404, "410"])],
    "a delay until a time": [step("a", "delay", until="2026-12-24T18:00:00Z")],
    "a delay of a duration": [step("a", "delay", duration="1h30m")],
    "a delay of a duration that a template gives": [step("a", "delay", duration="{{ trigger.pause }}")],
    "a delay until what a template gives": [step("a", "delay", until="{{ trigger.at }}")],
    "a path on error": [LOOKUP | {"on_error": ["b"]}, transform("b", "steps.ip.error.code")],
    "both branches": [condition("if", then=["a"], **{"else": ["b"]}), transform("a"), transform("b")],
}  # fmt: skip


@pytest.mark.parametrize("case", FINE)
def test_steps_that_can_work_are_fine(case: str) -> None:
    found = report(*FINE[case])
    assert (found.errors, found.warnings) == ([], [])


@pytest.mark.parametrize("case", FINE)
def test_the_published_schema_allows_what_is_valid(case: str) -> None:
    jsonschema_rs.validate(json_schema(), {"name": "test", "steps": FINE[case]})


WARNINGS: dict[str, tuple[list[Step], Found]] = {
    "a name in double quotes": (
        [condition("a", 'trigger.x == "y"')], {("/steps/0/config/expression", "doubtful_expression")},
    ),
    "a number compared with a name": (
        [condition("a", '5 == "y"')], {("/steps/0/config/expression", "doubtful_expression")},
    ),
    "a later step that is compared": (
        [condition("a", 'trigger.x == "later-on"'), transform("later-on")],
        {("/steps/0/config/expression", "doubtful_expression")},
    ),
    "a step in double quotes that needs none": (
        [transform("lookup"), condition("a", 'trigger.x == "lookup"')],
        {("/steps/1/config/expression", "doubtful_expression")},
    ),
    "a name in double quotes in a filter": (
        [transform("a", 'trigger.list[?c == "DE"]')], {("/steps/0/config/expression", "doubtful_expression")},
    ),
    "a step that is not waited for": (
        [transform("a"), transform("b", needs=[]), transform("c", "[a, b]", needs=["b"])],
        {("/steps/2/config/expression", "not_awaited")},
    ),
    "the status of a step that is not waited for": (
        [transform("a"), transform("b", "steps.a.status", needs=[])],
        {("/steps/1/config/expression", "not_awaited")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WARNINGS)
def test_what_is_doubtful_is_warned_of(case: str) -> None:
    steps, expected = WARNINGS[case]
    found = report(*steps)
    assert {(warning.pointer, warning.code) for warning in found.warnings} == expected
    assert found.errors == []


def test_a_doubt_has_its_place_in_the_string_that_it_stands_in() -> None:
    hook = step("a", "webhook", url=URL, body='Is it {{ trigger.x == "y" }}?')
    told = "At character 23: a name in double quotes is a field; a string is in single quotes."
    assert [warning.message for warning in report(hook).warnings] == [told]
    assert [warning.message for warning in report(condition("a", "trigger.x == `y`")).warnings] == [
        "At character 14: a string is written in single quotes, not in backticks."
    ]


def test_secrets_that_cannot_be_known_are_warned_of() -> None:
    document = {
        "name": "test", "status": "draft",
        "trigger": {"type": "webhook", "signature": {"scheme": "github", "secret": "HOOK"}},
        "steps": [step("a", "webhook", url=URL + "{{ secrets.ANY }}")],
    }  # fmt: skip
    found = validate(document, None)
    assert found.errors == []
    assert [(w.pointer, w.code) for w in found.warnings] == [
        ("/steps/0/config/url", "unchecked_secret"),
        ("/trigger/signature/secret", "unchecked_secret"),
    ]


def test_the_secrets_that_a_definition_uses_are_those_of_its_steps_and_of_its_signature() -> None:
    document = {
        "name": "test",
        "trigger": {"type": "webhook", "signature": {"scheme": "github", "secret": "HOOK"}},
        "steps": [step("a", "webhook", url=URL + "{{ secrets.A }}", body=["{{ secrets.B }}{{secrets.A}}"])],
    }
    assert checks.secrets_used(Definition.model_validate(document)) == ["A", "B", "HOOK"]


def test_a_report_has_at_most_so_many_errors() -> None:
    needs = [f"{'x' * 50}{n}" for n in range(MAX_STEPS)]
    assert len(report(*(transform(f"s{n}", needs=needs) for n in range(30))).errors) == MAX_FINDINGS
    assert len(report(**{f"unknown{n}": 1 for n in range(1000)}).errors) == MAX_FINDINGS


def test_a_workflow_has_at_most_so_many_expressions() -> None:
    body = ["{{ trigger }}"] * checks.MAX_EXPRESSIONS
    assert errors(step("a", "webhook", url=URL, body=body)) == set()
    assert errors(step("a", "webhook", url=URL, body=[*body, "{{ run }}"])) == {
        ("/steps", "too_many_expressions")
    }


def test_expressions_have_at_most_so_many_characters_together() -> None:
    long = "trigger.x || " * 100
    steps = [transform(f"s{n}", long + f"run.x{n:04}") for n in range(49)]
    assert errors(*steps) == set()
    assert errors(*steps, *(transform(f"t{n}", long + "run") for n in range(2))) == {
        ("/steps", "too_many_expressions")
    }


URLS: dict[str, tuple[str, str]] = {
    "a space": ("https://exa mple.com/", "invalid_url"),
    "a space behind a template": (URL + "{{ trigger.x }} y", "invalid_url"),
    "a port too high": ("https://example.com:99999/", "invalid_url"),
    "credentials": ("https://user:pw@example.com/{{ trigger.x }}", "invalid_url"),
    "two dots": ("https://a..b/", "invalid_url"),
    "no scheme": ("example.com/{{ trigger.x }}", "invalid_url"),
    "a path alone": ("/hook/{{ trigger.x }}", "invalid_url"),
    "a scheme that is none of ours": ("ftp://{{ trigger.host }}/", "invalid_url"),
    "no host": ("https:///{{ trigger.x }}", "invalid_url"),
    "an address of ours": ("http://10.0.0.1/{{ trigger.x }}", "forbidden_address"),
    "an address of ours with a query": ("http://10.0.0.1?x={{ trigger.x }}", "forbidden_address"),
    "an address of ours with a fragment": ("http://10.0.0.1#{{ trigger.x }}", "forbidden_address"),
}  # fmt: skip


@pytest.mark.parametrize("case", URLS)
def test_a_url_that_can_never_be_called_is_refused(case: str) -> None:
    url, code = URLS[case]
    document = {"name": "test", "steps": [step("a", "webhook", url=url)]}
    expected = [("/steps/0/config/url", code)]
    assert [error[:2] for error in validate(document, (), networks=()).errors] == expected
    # Without a server nobody knows which networks it opens.
    assert [error[:2] for error in validate(document, ()).errors] == expected * (code == "invalid_url")


@pytest.mark.parametrize(
    "url",
    ["https://{{ trigger.host }}", "https://{{ trigger.host }}:{{ trigger.port }}/",
     "https://x.{{ trigger.zone }}/", "http{{ trigger.s }}://example.com",
     URL + "{{ trigger['a b'] }}?{{ trigger.q }}", URL + "{{ '}}' }}/x"],
)  # fmt: skip
def test_a_url_whose_templates_may_yet_make_it_right_is_fine(url: str) -> None:
    document = {"name": "test", "steps": [step("a", "webhook", url=url)]}
    assert "invalid_url" not in {error.code for error in validate(document, (), networks=()).errors}


FIELDS = {"ip": {"location", "location.city", "asn"}}


@pytest.mark.parametrize(
    ("name", "told"),
    [("locaton.city", "Did you mean location.city?"), ("qqq", "There are: asn, location."),
     ("location.city.x", "Did you mean location.city?")],
)  # fmt: skip
def test_a_field_that_no_answer_has_is_refused_with_the_nearest(name: str, told: str) -> None:
    lookup = step("a", "ip_lookup", field="trigger.ip", fields=["location.city", name, "location"])
    [error] = validate({"name": "test", "steps": [lookup]}, (), lookup_fields=FIELDS).errors
    assert error[:2] == ("/steps/0/config/fields/1", "unknown_field") and told in error.message
    assert name not in error.message.removesuffix(told)


def test_the_fields_that_are_known_are_those_of_the_answers_of_each_kind_of_lookup() -> None:
    known = lookup_fields()
    fields = EmailAnswer.model_fields.keys() - LookupAnswer.model_fields.keys() - {"email"}
    blocks = {
        "checks": MailChecks,
        "socials": Socials,
        "breach": Breach,
        "registered_services": RegisteredServices,
    }
    nested = {f"{name}.{field}" for name, block in blocks.items() for field in block.model_fields}
    assert known["email"] == fields | nested
    assert {f"{kind}_lookup" for kind in known} >= {f"{kind}_lookup" for kind in LOOKUPS}
    assert "location.city" in known["ip"] and "ip" not in known["ip"]


CANARY = "canary 7!"
HIDDEN: dict[str, Any] = {
    "a status": {"status": CANARY},
    "a type of trigger": {"trigger": {"type": CANARY}},
    "a dedupe": {"trigger": {"type": "webhook", "dedupe": CANARY}},
    "a root of a dedupe": {"trigger": {"type": "webhook", "dedupe": f'"{CANARY}".x'}},
    "a secret of a signature": {
        "trigger": {"type": "webhook", "signature": {"scheme": "github", "secret": CANARY}},
    },
    "a schema": {"input_schema": {"type": CANARY}},
    "a type of step": {"steps": [step("a", CANARY)]},
    "a number": {"steps": [step("a", "delay", seconds=CANARY)]},
    "a time": {"steps": [step("a", "delay", until=CANARY)]},
    "an id": {"steps": [transform(CANARY)]},
    "a need": {"steps": [transform("a", needs=[CANARY])]},
    "a branch": {"steps": [condition("a", then=[CANARY])]},
    "a reference": {"steps": [transform("a", f'"{CANARY}".x')]},
    "a status of a step": {"steps": [transform("a", f'steps."{CANARY}".x')]},
    "a string in double quotes": {"steps": [transform("a", f'"{CANARY}"')]},
    "a field": {"steps": [step("a", "ip_lookup", field=CANARY)]},
    "a field of an answer": {"steps": [step("a", "ip_lookup", field="trigger.x", fields=[CANARY])]},
    "a secret": {"steps": [step("a", "webhook", url=URL, body=f'{{{{ secrets."{CANARY}" }}}}')]},
    "a URL": {"steps": [step("a", "webhook", url=CANARY)]},
    "a header": {"steps": [step("a", "webhook", url=URL, headers={CANARY: "x"})]},
    "a method": {"steps": [step("a", "webhook", url=URL, method=CANARY)]},
    "what is no step": {"steps": [CANARY]},
    "a field too many": {CANARY: 1},
}  # fmt: skip


@pytest.mark.parametrize("case", HIDDEN)
def test_what_a_document_says_is_never_repeated_to_it(case: str) -> None:
    found = validate({"name": "test", **HIDDEN[case]}, (), (), FIELDS)
    assert found.errors
    assert not [error for error in found.errors if "canary" in error.message]
    unchecked = validate({"name": "test", **HIDDEN[case]}, None)
    assert not [
        finding for finding in (*unchecked.errors, *unchecked.warnings) if "canary" in finding.message
    ]


def test_an_id_is_repeated_since_who_mends_it_must_know_which() -> None:
    assert "canary-7" in message(transform("a", needs=["canary-7"]))
    assert "CANARY_7" in message(step("a", "webhook", url=URL, body="{{ secrets.CANARY_7 }}"))


def test_a_status_that_cannot_be_read_is_not_taken_for_active() -> None:
    trigger = {"type": "schedule", "schedule": "0 9 * * *"}
    assert errors(status="on", trigger=trigger) == {("/status", "not_allowed")}


def test_the_name_of_a_step_is_trimmed() -> None:
    found = report(transform("a", name="  Look up \n"))
    assert found.definition is not None and found.definition.steps[0].name == "Look up"


def test_a_file_that_is_not_json_is_told_with_the_place() -> None:
    [error] = validate_text(b'{"name":\n x}').errors
    assert error.code == "invalid_json" and "line 2" in error.message


BRACES = "An expression has no {{ and }} around it: leave the braces out."
ONE_SIGN = "One = means nothing here: write ==."
MESSAGES: dict[str, tuple[Step, str, str]] = {
    "one = in a condition": (
        condition("a", "trigger.x = 'y'"), "/config/expression", f"At character 11: {ONE_SIGN}",
    ),
    "one = in a template": (
        step("a", "webhook", url=URL, body="So: {{ trigger.x = 1 }}"), "/config/body",
        f"At character 18: {ONE_SIGN}",
    ),
    "a sum": (
        condition("a", "trigger.x + 1 > 2"), "/config/expression",
        "At character 11: There is no arithmetic; sum([a, b]) adds.",
    ),
    "braces around an expression": (
        condition("a", "{{ trigger.x }} == 1"), "/config/expression", f"At character 1: {BRACES}",
    ),
    "braces within an expression": (
        transform("a", "trigger.x == {{ trigger.y }}"), "/config/expression", f"At character 14: {BRACES}",
    ),
    "braces in an if": (transform("a") | {"if": "{{ trigger.x }}"}, "/if", f"At character 1: {BRACES}"),
    "braces in a for_each": (
        transform("a") | {"for_each": "{{ trigger }}"}, "/for_each", f"At character 1: {BRACES}",
    ),
    "braces in a field": (
        step("a", "ip_lookup", field="{{ trigger.ip }}"), "/config/field", f"At character 1: {BRACES}",
    ),
    "braces in braces": (
        step("a", "webhook", url=URL, body="{{ {{ trigger }} }}"), "/config/body",
        f"At character 4: {BRACES}",
    ),
    "a secret that is not there": (
        step("a", "webhook", url=URL, body="{{ secrets.TOKEN }}"), "/config/body",
        "There is no secret TOKEN. Store it: POST /api/workflows/secrets, or vedette secrets set TOKEN.",
    ),
    "a delay by two ways": (
        step("a", "delay", hours=1, duration="5m"), "/config",
        "Give exactly one of seconds, minutes, hours, days, duration, until; hours and duration are given.",
    ),
    "a delay by none": (
        step("a", "delay"), "/config",
        "Give exactly one of seconds, minutes, hours, days, duration, until; none is given.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MESSAGES)
def test_a_mistake_that_many_make_is_told_with_what_to_write(case: str) -> None:
    wrong, pointer, message = MESSAGES[case]
    assert [(one.pointer, one.message) for one in report(wrong).errors] == [(f"/steps/0{pointer}", message)]


@pytest.mark.parametrize("timeout", ["abc", "5", -1, 0, [], True, 1e9], ids=str)
def test_a_wrong_timeout_is_one_error(timeout: Any) -> None:
    wait = step("wait", "wait", timeout=timeout)
    asks = step("ask", "webhook", url=URL, body="{{ run.resume_urls.wait }}")
    assert [one.pointer for one in report(asks, wait).errors] == ["/steps/1/config/timeout"]
    call = step("a", "webhook", url=URL, timeout=timeout)
    assert [one.pointer for one in report(call, transform("b", "a.body")).errors] == [
        "/steps/0/config/timeout"
    ]
    each = LOOKUP | {"timeout": timeout, "for_each": "trigger"}
    assert [one.pointer for one in report(each, transform("b", "ip[0]")).errors] == ["/steps/0/timeout"]
