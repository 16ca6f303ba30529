"""Input schemas: which are usable, and what inputs they let in."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from models.errors import Invalid
from models.inputs import input_schemas
from models.inputs.input_schemas import DRAFT, MAX_BYTES, MAX_DEPTH, MAX_SUBSCHEMAS
from models.inputs.inputs import MAX_ERRORS, InputSchema

NESTED: dict[str, Any] = {"type": "string"}
for _ in range(MAX_DEPTH + 1):
    NESTED = {"items": NESTED}

TREE = {
    "$schema": DRAFT,
    "$id": "https://example.com/tree",
    "type": "object",
    "properties": {"n": {"$ref": "#/$defs/a~1b"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["n"],
    "$defs": {"a/b": {"type": "integer", "minimum": 3, "description": "three or more"}},
}

USABLE: dict[str, dict[str, Any]] = {
    "an empty one": {},
    "a tree": TREE,
    "all remarks": {"title": "x", "description": "x", "default": 5, "examples": [1], "deprecated": True},
    "names that are keywords": {
        "properties": {"pattern": {"const": {"$ref": 5, "pattern": "("}}, "$id": True},
    },
    "conditions": {"if": {"required": ["a"]}, "then": False, "else": {"not": {"minProperties": 2}}},
    "a keyword of one's own": {"x-widget": {"pattern": "("}},
    "a percent-encoded reference": {"$ref": "#/$defs/a%20b", "$defs": {"a b": {}}},
}  # fmt: skip


@pytest.mark.parametrize("case", USABLE)
def test_a_usable_schema_has_no_findings_and_is_valid_json_schema(case: str) -> None:
    assert input_schemas.read_schema(USABLE[case], "").findings == []
    jsonschema_rs.validator_for(USABLE[case])


UNUSABLE: dict[str, tuple[dict[str, Any], set[tuple[str, str]]]] = {
    "no such type": ({"type": "text"}, {("/type", "invalid_value")}),
    "no types at all": ({"type": []}, {("/type", "invalid_value")}),
    "a required that is no array": ({"required": "a"}, {("/required", "invalid_value")}),
    "a negative length": ({"minLength": -1}, {("/minLength", "invalid_value")}),
    "a minimum that is a string": ({"minimum": "1"}, {("/minimum", "invalid_value")}),
    "a multiple of nothing": ({"multipleOf": 0}, {("/multipleOf", "invalid_value")}),
    "properties that are an array": ({"properties": []}, {("/properties", "wrong_type")}),
    "a property that is no schema": ({"properties": {"a/b": 5}}, {("/properties/a~1b", "wrong_type")}),
    "items that are an array": ({"items": [{}]}, {("/items", "wrong_type")}),
    "none of nothing": ({"anyOf": []}, {("/anyOf", "wrong_type")}),
    "a pattern": ({"items": {"pattern": "(a+)+$"}}, {("/items/pattern", "unsupported_keyword")}),
    "patterns of names": (
        {"patternProperties": {"(a+)+$": {}}}, {("/patternProperties", "unsupported_keyword")},
    ),
    "what is left over": ({"unevaluatedItems": False}, {("/unevaluatedItems", "unsupported_keyword")}),
    "an address within": ({"$defs": {"a": {"$id": "x"}}}, {("/$defs/a/$id", "unsupported_keyword")}),
    "another draft": (
        {"$schema": "http://json-schema.org/draft-07/schema#"}, {("/$schema", "unsupported_draft")},
    ),
    "another draft within": (
        {"items": {"$schema": "http://json-schema.org/draft-07/schema#"}},
        {("/items/$schema", "unsupported_keyword")},
    ),
    "a reference to another host": ({"$ref": "https://example.com/x"}, {("/$ref", "remote_reference")}),
    "a reference to a file": ({"$ref": "file:///etc/passwd"}, {("/$ref", "remote_reference")}),
    "a reference to nothing": ({"$ref": "#/$defs/a"}, {("/$ref", "unknown_reference")}),
    "a reference to what is no schema": (
        {"const": {"pattern": "("}, "items": {"$ref": "#/const"}}, {("/items/$ref", "unknown_reference")},
    ),
    "a reference to itself": ({"$ref": "#"}, {("", "endless_reference")}),
    "a circle": (
        {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}},
        {("/$defs/a", "endless_reference")},
    ),
    "too deep": (NESTED, {("/items" * (MAX_DEPTH + 1), "schema_too_large")}),
    "too many": (
        {"$defs": {str(n): {} for n in range(MAX_SUBSCHEMAS + 5)}},
        {(f"/$defs/{MAX_SUBSCHEMAS - 1}", "schema_too_large")},
    ),
    "too long": ({"description": "x" * MAX_BYTES}, {("", "schema_too_large")}),
}  # fmt: skip


@pytest.mark.parametrize("case", UNUSABLE)
def test_an_unusable_schema_is_refused_with_the_place(case: str) -> None:
    schema, expected = UNUSABLE[case]
    found = {(finding.pointer, finding.code) for finding in input_schemas.read_schema(schema, "").findings}
    # Where a circle begins is a matter of taste.
    if case == "a circle":
        assert {code for _, code in found} == {"endless_reference"}
    else:
        assert found == expected


def refused(schema: dict[str, Any], value: Any) -> list[tuple[str, str]]:
    try:
        InputSchema(schema).check(value, "/input", 100)
    except Invalid as error:
        return [(found.pointer, found.code) for found in error.errors]
    return []


INPUTS: dict[str, tuple[dict[str, Any], Any, list[tuple[str, str]]]] = {
    "what fits": (TREE, {"n": 3, "children": [{"n": 4}]}, []),
    "another type": (TREE, [], [("/input", "wrong_type")]),
    "what is missing": (
        TREE, {"children": [{}]}, [("/input/children/0/n", "required"), ("/input/n", "required")],
    ),
    "out of range": (TREE, {"n": 3, "children": [{"n": 2}]}, [("/input/children/0/n", "out_of_range")]),
    "a field too many": (
        {"properties": {"a": {}}, "additionalProperties": False}, {"a": 1, "b/c": 2},
        [("/input/b~1c", "unknown_field")],
    ),
    "what goes with another": (
        {"dependentRequired": {"card": ["address"]}}, {"card": 1}, [("/input/address", "required")],
    ),
    "none of these": ({"enum": [1, "a"]}, 2, [("/input", "not_allowed")]),
    "no address": ({"format": "email"}, "x", [("/input", "invalid_format")]),
    "no moment": ({"format": "date-time"}, "2026-01-01", [("/input", "invalid_format")]),
    "a moment": ({"format": "date-time"}, "2026-01-01T00:00:00Z", []),
    "a format that is a remark": ({"format": "hostname"}, "!", []),
    "two of the same": (
        {"uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2.0, "a": 1}], [("/input", "duplicate_items")],
    ),
    "true and one": ({"uniqueItems": True}, [True, 1, "1", [1], {"a": 1}], []),
    "two schemas at once": (
        {"oneOf": [{"type": "integer"}, {"minimum": 3}]}, 5, [("/input", "invalid_value")],
    ),
    "never anything": ({"not": {}}, 5, [("/input", "invalid_value")]),
    "never such a field": ({"properties": {"a": False}}, {"a": 1}, [("/input/a", "invalid_value")]),
}  # fmt: skip


@pytest.mark.parametrize("case", INPUTS)
def test_an_input_is_held_against_the_schema(case: str) -> None:
    schema, value, expected = INPUTS[case]
    assert sorted(refused(schema, value)) == expected


def test_a_message_does_not_repeat_the_input() -> None:
    with pytest.raises(Invalid) as caught:
        InputSchema({"type": "integer"}).check("canary", "/input", 8)
    assert "canary" not in caught.value.message


MANY: dict[str, tuple[dict[str, Any], Any, str]] = {
    "elements": ({"items": {"type": "string"}}, [1] * 1000, "/input/{}"),
    "fields too many": (
        {"properties": {"a": {}}, "additionalProperties": False},
        {"a": 1} | {f"x{n}": 1 for n in range(20_000)}, "/input/x{}",
    ),
    "fields that are missing": ({"required": [f"x{n}" for n in range(1000)]}, {}, "/input/x{}"),
    "fields that go with another": (
        {"dependentRequired": {"a": [f"x{n}" for n in range(1000)]}}, {"a": 1}, "/input/x{}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MANY)
def test_a_check_names_the_first_places_and_no_more(case: str) -> None:
    schema, value, place = MANY[case]
    assert [pointer for pointer, _ in refused(schema, value)] == [place.format(n) for n in range(MAX_ERRORS)]


FORKS: dict[str, Any] = {"allOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]}
HOSTILE: dict[str, tuple[dict[str, Any], Any]] = {
    "twice as much on each level": (FORKS, json.loads("[" * 30 + "]" * 30)),
    "a great many elements": ({"items": {"minimum": 3}}, [5] * 200_000),
    "what is deep within the elements that must differ": (
        {"allOf": [{"uniqueItems": True}] * 50},
        [[list(range(50_000))]],
    ),
    "a large value that many schemas name": (
        {"allOf": [{"$ref": "#/$defs/a"}] * 200, "$defs": {"a": {"const": [[list(range(5_000))]]}}},
        [[list(range(5_000))]],
    ),
    "each schema of many for each element": (
        {"items": {"anyOf": [{"type": "string"}] * 500 + [{}]}},
        [5] * 200,
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_check_that_would_take_too_long_is_refused(case: str) -> None:
    schema, value = HOSTILE[case]
    assert input_schemas.read_schema(schema, "").findings == []
    assert refused(schema, value) == [("/input", "too_much_to_check")]


def test_many_messages_on_a_large_input_are_too_much() -> None:
    with pytest.raises(Invalid) as caught:
        schema = {"anyOf": [{"type": "string"}] * 500}
        InputSchema(schema).check({"a": "x" * 1_000_000}, "", 1_000_000)
    assert caught.value.errors[0].code == "too_much_to_check"


def test_an_input_as_deep_as_json_may_be_is_checked() -> None:
    value: Any = {"n": 3}
    for _ in range(48):
        value = {"n": 3, "children": [value]}
    assert refused(TREE, value) == []
