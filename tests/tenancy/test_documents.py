"""docs/security.md and the examples in OpenAPI say what is so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.api_server import openapi_document

SECURITY = Path(__file__).resolve().parents[2] / "docs" / "security.md"
ROW = re.compile(r"^\| `([A-Z]+ /\S*)` \| `?(\w+)`? \|", re.MULTILINE)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return openapi_document()


def scope(operation: dict[str, Any]) -> str:
    if not operation["security"]:
        return "public"
    scopes = next(iter(operation["security"][0].values()))
    return scopes[0] if scopes else "any"


def test_the_table_of_scopes_has_every_route_with_its_scope(document: dict[str, Any]) -> None:
    told = dict(ROW.findall(SECURITY.read_text()))
    real = {
        f"{method.upper()} {path}": scope(operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    assert told == real


def test_every_example_is_valid(document: dict[str, Any]) -> None:
    components: dict[str, Any] = document["components"]
    examples = 0
    for schema in components["schemas"].values():
        for example in schema.get("examples", []):
            jsonschema_rs.validate({**schema, "components": components}, example)
            examples += 1
    assert examples
