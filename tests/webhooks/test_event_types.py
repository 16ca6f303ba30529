"""The types of events: schemas, examples, filters, and docs/events.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from models.events.event_data import LookupCompleted
from models.events.event_types import EVENT_TYPES, EventType, matches, unknown_filter
from providers.registry import KINDS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "events.md").read_text()
each_type = pytest.mark.parametrize("event_type", EVENT_TYPES.values(), ids=EVENT_TYPES)


def is_valid(event_type: EventType, event: dict[str, Any]) -> bool:
    schema = event_type.envelope_schema()
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True).is_valid(event)


def objects(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A schema of an object, and those of the objects in it."""
    yield schema
    for inner in schema["properties"].values():
        if inner.get("type") == "object":
            yield from objects(inner)


@each_type
def test_its_schemas_are_valid_and_refer_to_nothing(event_type: EventType) -> None:
    for schema in (event_type.envelope_schema(), event_type.data_schema()):
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        jsonschema_rs.meta.validate(schema)
        assert "$ref" not in str(schema)


@each_type
def test_its_schema_says_of_every_object_exactly_which_described_members_it_has(
    event_type: EventType,
) -> None:
    for schema in objects(event_type.envelope_schema()):
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])
        assert all(member["description"] for member in schema["properties"].values())


@each_type
def test_its_example_is_an_event_of_this_type(event_type: EventType) -> None:
    assert is_valid(event_type, event_type.example)
    jsonschema_rs.validate(event_type.data_schema(), event_type.example["data"])
    data = event_type.data.model_validate_json(json.dumps(event_type.example["data"]))
    assert data.model_dump(mode="json") == event_type.example["data"]


@each_type
def test_an_event_with_a_member_too_many_or_too_few_is_none_of_this_type(event_type: EventType) -> None:
    event, data = event_type.example, event_type.example["data"]
    assert not is_valid(event_type, event | {"extra": 1})
    assert not is_valid(event_type, event | {"data": data | {"extra": 1}})
    for name in event:
        assert not is_valid(event_type, {other: event[other] for other in event if other != name})
    for name in data:
        fewer = {other: data[other] for other in data if other != name}
        assert not is_valid(event_type, event | {"data": fewer})


def test_an_example_is_of_no_other_type() -> None:
    for name, event_type in EVENT_TYPES.items():
        valid_for = [other for other in EVENT_TYPES if is_valid(EVENT_TYPES[other], event_type.example)]
        assert valid_for == [name]


def test_the_kinds_of_lookups_are_those_that_there_are() -> None:
    described = LookupCompleted.model_fields["kind"].description or ""
    assert set(re.findall("`([a-z]+)`", described)) == set(KINDS)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*", list(EVENT_TYPES)),
        ("key.created", ["key.created"]),
        (
            "monitor.*",
            [
                "monitor.run.completed",
                "monitor.run.failed",
                "monitor.source_silent",
                "monitor.source_back",
            ],
        ),
        ("monitor.run.*", ["monitor.run.completed", "monitor.run.failed"]),
        ("credits.*", ["credits.low", "credits.exhausted", "credits.topped_up"]),
    ],
)
def test_a_filter_lets_pass_what_it_names(pattern: str, names: list[str]) -> None:
    assert [name for name in EVENT_TYPES if matches(pattern, name)] == names
    assert unknown_filter(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("monitor.run.complete", "monitor.run.completed"),
        ("Key.Created", "key.created"),
        ("credit.*", "credits.*"),
        ("monitor.runs.*", "monitor.run.*"),
        ("credits", "credits.*"),
        ("monitor*", "monitor.*"),
        ("key.created.*", "key.created"),
        ("**", "*"),
        ("mon.*", "monitor.*"),
        ("user.deleted", None),
        ("", None),
        (".", None),
    ],
)
def test_a_filter_that_lets_nothing_pass_is_told_with_what_was_meant(pattern: str, meant: str | None) -> None:
    assert not any(matches(pattern, name) for name in EVENT_TYPES)
    told = unknown_filter(pattern) or ""
    assert told.partition("Did you mean ")[2] == (f"{meant}?" if meant else "")
    assert told.startswith("There is no such type of events.")


def type_in_words(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(map(type_in_words, schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "type" not in schema:
        return "any JSON"
    if schema["type"] == "array":
        return f"array of {type_in_words(schema['items'])}s"
    named = {"uuid": "UUID", "date-time": "time"}
    return named[schema["format"]] if "format" in schema else schema["type"]


def rows(schema: dict[str, Any], within: str = "") -> Iterator[str]:
    for name, member in schema["properties"].items():
        yield f"| `{within}{name}` | {type_in_words(member)} | {member['description']} |"
        if member.get("type") == "object":
            yield from rows(member, f"{within}{name}.")


def section(event_type: EventType) -> str:
    """Return what docs/events.md must say of a type."""
    head = [f"### {event_type.name}", "", event_type.description, ""]
    listed = list(rows(event_type.data_schema()))
    for other in EVENT_TYPES.values():
        if other.data is event_type.data.__base__:
            anchor = other.name.replace(".", "")
            head += [f"All fields of [{other.name}](#{anchor}), and:", ""]
            listed = [row for row in listed if row not in set(rows(other.data_schema()))]
    return "\n".join([*head, "| `data` | Type | |", "| --- | --- | --- |", *listed])


@each_type
def test_the_page_has_every_field_of_it(event_type: EventType) -> None:
    assert f"\n{section(event_type)}\n" in PAGE, f"docs/events.md should have:\n\n{section(event_type)}\n"


def test_the_page_has_all_types_in_order_and_no_other() -> None:
    assert re.findall("^### (.+)$", PAGE, re.MULTILINE) == list(EVENT_TYPES)


def test_the_page_shows_an_example_of_the_catalogue() -> None:
    (shown,) = re.findall("^```json answer\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert json.loads(shown) == EVENT_TYPES["workflow.run.failed"].example
