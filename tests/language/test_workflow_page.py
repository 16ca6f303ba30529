"""docs/workflows.md, ingest.md, triggers.md and workflow.schema.json say what is so."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import jsonschema_rs
import pytest

from language import findings
from language.steps import Step
from language.triggers import Trigger
from models.automations.definitions import json_schema, validate
from models.inputs import inputs
from providers.registry import lookup_fields

DOCS = Path(__file__).resolve().parents[2] / "docs"
PUBLISHED = DOCS / "workflow.schema.json"
PAGE = (DOCS / "workflows.md").read_text()
EXAMPLES: list[dict[str, Any]] = [
    json.loads(block)
    for page in (PAGE, *((DOCS / name).read_text() for name in ("ingest.md", "triggers.md")))
    for block in re.findall(r"^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
]


def test_the_published_schema_is_current() -> None:
    assert json.loads(PUBLISHED.read_text()) == json_schema(), (
        "vedette workflows schema > docs/workflow.schema.json"
    )


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
    found = validate(whole(example), None, lookup_fields=lookup_fields())
    assert found.errors == []
    assert {warning.code for warning in found.warnings} <= {"unchecked_secret"}
    jsonschema_rs.validate(json_schema(), whole(example))


def types(union: Any) -> set[str]:
    """The values of `type` in a union of models."""
    models: tuple[Any, ...] = get_args(get_args(union)[0])
    return {name for model in models for name in get_args(model.model_fields["type"].annotation)}


def test_the_examples_show_every_type_of_step_and_trigger() -> None:
    wholes = [whole(example) for example in EXAMPLES]
    assert len(types(Step)) == 18 and len(types(Trigger)) == 5
    assert {step["type"] for document in wholes for step in document.get("steps", [])} == types(Step)
    assert {document["trigger"]["type"] for document in wholes if "trigger" in document} == types(Trigger)


def test_the_workflow_of_the_readme_is_the_example_and_valid() -> None:
    example = (DOCS.parent / "examples" / "visitors.json").read_text()
    assert f"```json\n{example}```" in (DOCS.parent / "README.md").read_text()
    assert validate(json.loads(example), ("RECEIVER_TOKEN",)).errors == []


ROOT = DOCS.parent
SAYING = [
    *(ROOT / "language").rglob("*.py"),
    ROOT / "models" / "automations" / "definitions.py",
    ROOT / "models" / "schedules" / "schedules.py",
    *(ROOT / "models" / "inputs").glob("*.py"),
]
# Where these take a code.
CODE_AT = {"ExpressionError": 0, "Finding": 1, "FieldError": 1, "Refusal": 0, "_refuse": 1}
# Of other bodies than workflows.
ELSEWHERE = {"timezone_missing", "not_in_future"}


def codes_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            at = CODE_AT.get(name, len(node.args))
            if at < len(node.args) and isinstance(code := node.args[at], ast.Constant):
                yield code.value


def test_every_code_is_in_errors_md() -> None:
    codes = {code for path in SAYING for code in codes_in(path)}
    codes |= {code for code, _ in findings._KINDS.values()} | {code for code, _ in inputs._MESSAGES.values()}  # pyright: ignore[reportPrivateUsage]
    # The guard's: of a URL.
    codes |= {"invalid_url", "forbidden_address"}
    assert {
        "not_an_array",
        "delay_too_long",
        "wrong_arity",
        "two_branches",
        "never_fires",
        "remote_reference",
    } < codes
    listed = (DOCS / "errors.md").read_text()
    assert codes - ELSEWHERE - set(re.findall(r"`([a-z_]+)`", listed)) == set()
