"""The form of a resume URL: which fields a schema gives, and what is made of what they send."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

from api.pages.resume_forms import Answer, FormField, fields_of, note_errors, read_form
from api.pages.resume_pages import HEADERS, STYLE, Question, form_page, tag
from models.errors import FieldError

JSONObject = dict[str, Any]


def schema(**properties: Any) -> JSONObject:
    return {"type": "object", "properties": properties, "required": [*properties]}


def sent(given: JSONObject | None, values: dict[str, str]) -> Answer:
    """Return what a form gives in whose fields, by their labels, these values stand."""
    fields = fields_of(given)
    keys = {one.name or "": one.key for one in fields}
    return read_form(urlencode({keys[name]: value for name, value in values.items()}).encode(), fields)


@pytest.mark.parametrize(
    ("one", "kind"),
    [
        ({"type": "string"}, "text"),
        ({"type": ["string", "null"]}, "text"),
        ({"type": "number"}, "number"),
        ({"type": "integer"}, "number"),
        ({"type": "boolean"}, "boolean"),
        ({"enum": ["a", 1, None]}, "choice"),
        ({"type": "array"}, "json"),
        ({"type": ["string", "number"]}, "json"),
        ({"type": "object"}, "json"),
        ({}, "json"),
        (True, "json"),
    ],
)
def test_a_property_has_a_field_of_its_kind(one: Any, kind: str) -> None:
    assert [found.kind for found in fields_of(schema(x=one))] == [kind]


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (None, "json"),
        ({}, "json"),
        ({"type": "object"}, "json"),
        ({"type": "array", "items": {}}, "json"),
        ({"type": "boolean"}, "boolean"),
        ({"enum": ["yes", "no"]}, "choice"),
    ],
)
def test_what_is_no_object_with_properties_has_one_field_for_all_of_it(
    given: JSONObject | None, kind: str
) -> None:
    [found] = fields_of(given)
    assert (found.name, found.kind) == (None, kind)


ALL = schema(
    text={"type": "string"}, n={"type": "integer"}, yes={"type": "boolean"}, which={"enum": ["a", 2, None]},
    list={"type": "array"},
)  # fmt: skip


def test_what_stands_in_the_fields_becomes_the_body_that_would_be_posted() -> None:
    values = {"text": "Grüße\r\n<b>", "n": " 12 ", "yes": "1", "which": "1", "list": '[1, {"a": null}]'}
    answer = sent(ALL, values)
    assert answer.errors == {}
    assert answer.body == {
        "text": "Grüße\n<b>", "n": 12, "yes": False, "which": 2, "list": [1, {"a": None}]
    }  # fmt: skip


def test_a_field_that_stays_empty_is_left_out() -> None:
    assert sent(ALL, {"text": " ", "n": "", "yes": "0"}).body == {"yes": True}
    assert sent(None, {"": ""}).body is None


@pytest.mark.parametrize(
    ("given", "value", "body"),
    [(None, "[1]", [1]), ({"type": "boolean"}, "0", True), ({"type": "string"}, "x", "x")],
)
def test_a_field_for_all_of_it_is_the_body_itself(given: JSONObject | None, value: str, body: Any) -> None:
    assert sent(given, {"": value}).body == body


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", "twelve"),
        ("n", "1,5"),
        ("n", "0x10"),
        ("n", "1e999"),
        ("n", "NaN"),
        ("n", "9" * 30),
        ("yes", "2"),
        ("yes", "true"),
        ("yes", "-1"),
        ("which", "99999999999"),
        ("list", "[1"),
        ("list", "[" * 101 + "]" * 101),
        ("list", '["\\u0000"]'),
        ("text", "a\0b"),
    ],
)
def test_what_cannot_be_read_is_said_at_its_field_and_kept_to_be_mended(name: str, value: str) -> None:
    answer = sent(ALL, {name: value})
    [key] = answer.errors
    assert answer.entered[key] == value


def test_a_form_with_very_many_fields_is_refused_before_it_is_read() -> None:
    answer = read_form(b"&".join(b"x%d=1" % n for n in range(3000)), fields_of(ALL))
    assert answer.errors.keys() == {""}


def test_what_the_schema_finds_is_said_at_the_field_that_it_is_wrong_with() -> None:
    fields = fields_of(schema(**{"a/b": {"type": "string"}, "a": {"type": "array"}}))
    answer = Answer()
    found = [
        FieldError("/a~1b", "too_short", "Short."),
        FieldError("/a/0", "x", "No."),
        FieldError("", "x", "All."),
    ]
    note_errors(answer, fields, found)
    assert answer.errors == {"field0": "Short.", "field1": "No.", "": "All."}


QUESTION = Question("Payments & more", "Pay <b>12</b>?", "Line 1\nLine 2 </p><script>x</script>", True)


def page(*fields: FormField, answer: Answer | None = None) -> str:
    return form_page(QUESTION, fields, answer or Answer(), 'x" onclick="y')


def test_all_that_comes_from_a_run_or_its_workflow_is_shown_as_text() -> None:
    hostile = '"><script>alert(1)</script>'
    fields = fields_of(
        schema(**{
            hostile: {"type": "string", "title": hostile, "description": hostile, "default": hostile},
            "c": {"enum": [hostile]}, "many": {"enum": [hostile, *range(9)]},
        })
    )  # fmt: skip
    answer = Answer(entered={one.key: hostile for one in fields}, errors={"field0": hostile, "": hostile})
    for shown in (page(*fields), page(*fields, answer=answer)):
        assert "<script" not in shown and 'onclick="' not in shown and "<b>" not in shown


def test_what_was_entered_stands_in_the_form_again_beside_what_is_wrong() -> None:
    fields = fields_of(ALL)
    answer = sent(ALL, {"text": "long\ntext", "n": "x", "yes": "1", "which": "2"})
    shown = page(*fields, answer=answer)
    assert "\nlong\ntext</textarea>" in shown
    assert 'value="x"' in shown and "Give a number" in shown
    assert 'name="field2" value="1" checked' in shown and 'name="field3" value="2" checked' in shown


def test_a_default_stands_in_its_field_at_first() -> None:
    fields = fields_of(
        schema(n={"type": "number", "default": 1.5}, yes={"type": "boolean", "default": False})
    )
    shown = page(*fields)
    assert 'value="1.5"' in shown and 'value="1" checked' in shown


def test_an_element_escapes_its_content_and_its_attributes() -> None:
    assert tag("p", "<&", tag("b", '"'), class_='"') == '<p class="&quot;">&lt;&amp;<b>&quot;</b></p>'


def test_the_page_needs_nothing_from_elsewhere_and_may_run_nothing() -> None:
    shown = page(*fields_of(ALL))
    assert "http" not in shown and "<script" not in shown and STYLE in shown
    policy = HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-") and "unsafe" not in policy
