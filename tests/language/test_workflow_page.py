"""docs/workflows.md and docs/workflow.schema.json say what is so."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from models.definitions import json_schema, validate
from tests.language.documents import Found
from tests.language.test_trigger_validation import TRIGGERS, UNAVAILABLE
from tests.language.test_validation import FINE, SHAPES, STEPS, WARNINGS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PUBLISHED = DOCS / "workflow.schema.json"
PAGE = (DOCS / "workflows.md").read_text()
EXAMPLES: list[dict[str, Any]] = [
    json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
]


def test_the_published_schema_is_current() -> None:
    assert json.loads(PUBLISHED.read_text()) == json_schema(), (
        "vedette workflows schema > docs/workflow.schema.json"
    )


@pytest.mark.parametrize("case", FINE)
def test_the_published_schema_allows_what_is_valid(case: str) -> None:
    jsonschema_rs.validate(json_schema(), {"name": "test", "steps": FINE[case]})


def test_the_published_schema_refuses_an_unknown_field() -> None:
    assert not jsonschema_rs.is_valid(json_schema(), {"name": "test", "stepz": []})


def whole(example: dict[str, Any]) -> dict[str, Any]:
    """A workflow around a step or a trigger."""
    if "name" in example:
        return example
    if "id" in example:
        return {"name": "test", "steps": [example]}
    return {"name": "test", "trigger": example, "status": "draft"}


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_every_example_of_the_documentation_is_valid(example: dict[str, Any]) -> None:
    found = validate(whole(example), None)
    assert found.errors == []
    assert {warning.code for warning in found.warnings} <= {"unchecked_secret"}
    jsonschema_rs.validate(json_schema(), whole(example))


def test_the_examples_show_every_type_of_step_and_trigger() -> None:
    wholes = [whole(example) for example in EXAMPLES]
    shown = {step["type"] for document in wholes for step in document.get("steps", [])}
    assert shown >= {"condition", "delay", "webhook", "transform", "ip_lookup", "email_lookup"}
    triggers = {document["trigger"]["type"] for document in wholes if "trigger" in document}
    assert triggers == {"webhook", "schedule", "file_upload", "monitor_event"}


def test_the_workflow_of_the_readme_is_the_example_and_valid() -> None:
    example = (DOCS.parent / "examples" / "visitors.json").read_text()
    assert f"```json\n{example}```" in (DOCS.parent / "README.md").read_text()
    assert validate(json.loads(example), ("RECEIVER_TOKEN",)).errors == []


def test_every_code_is_in_the_documentation() -> None:
    tables: list[dict[str, tuple[Any, Found]]] = [SHAPES, STEPS, WARNINGS, TRIGGERS]  # pyright: ignore
    codes = {code for table in tables for _, expected in table.values() for _, code in expected}
    codes |= {code for _, (_, code) in UNAVAILABLE.values()} | {"unreachable_step", "unchecked_secret"}
    told = set(re.findall(r"`([a-z_]+)`", PAGE.partition("## What validation says")[2]))
    assert codes - told == set()
