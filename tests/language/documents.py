"""Workflow documents for the tests of validation, and what is found in them."""

from __future__ import annotations

from typing import Any

from language.validation.definition import Report
from models.automations.definitions import validate

URL = "https://example.com/"

Step = dict[str, Any]
Found = set[tuple[str, str]]


def step(id: str, type: str, **config: Any) -> Step:
    return {"id": id, "type": type, "config": config}


def transform(id: str, expression: str = "'x'", **more: Any) -> Step:
    return step(id, "transform", expression=expression) | more


def condition(id: str, expression: str = "trigger.x", **config: Any) -> Step:
    return step(id, "condition", expression=expression, **config)


def report(*steps: Any, **fields: Any) -> Report:
    return validate({"name": "test", "steps": list(steps), **fields}, ("KEY",))


def errors(*steps: Any, **fields: Any) -> Found:
    return {(error.pointer, error.code) for error in report(*steps, **fields).errors}


def message(*steps: Any, **fields: Any) -> str:
    [error] = report(*steps, **fields).errors
    return error.message
