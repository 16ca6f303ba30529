"""The examples of OpenAPI: recorded requests and answers, which the tests repeat."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import orjson

_REFERENCE = "#/components/examples/"
_JSON = "application/json"


@cache
def read_examples() -> dict[str, dict[str, Any]]:
    """Return operation name → its `request`, and its `answers` by status."""
    return orjson.loads(files("api.http").joinpath("openapi_examples.json").read_bytes())


def show(document: dict[str, Any], name: str, operation: dict[str, Any]) -> None:
    """Make an operation refer to the examples named `name`, which are components."""
    told = read_examples().get(name)
    if told is None:
        return
    if "request" in told and "requestBody" in operation:
        content = operation["requestBody"]["content"].get(_JSON)
        _refer(document, content, f"{name}_request", told["request"])
    for status, answer in told["answers"].items():
        response = operation["responses"].get(status, {})
        _refer(document, response.get("content", {}).get(_JSON), f"{name}_{status}", answer)


def _refer(document: dict[str, Any], content: dict[str, Any] | None, name: str, value: Any) -> None:
    if content is None:
        return
    address = document["servers"][0]["url"]
    content.pop("example", None)
    content["examples"] = {"recorded": {"$ref": f"{_REFERENCE}{name}"}}
    document["components"]["examples"].setdefault(
        name,
        {
            "summary": "As it was recorded; of arrays, the first three items.",
            "value": _set_address(value, address),
        },
    )


def _set_address(value: Any, address: str) -> Any:
    """Return the value with the placeholder replaced by `address`."""
    if isinstance(value, dict):
        return {key: _set_address(inner, address) for key, inner in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [_set_address(inner, address) for inner in value]  # pyright: ignore[reportUnknownVariableType]
    return value.replace("$ADDRESS", address) if isinstance(value, str) else value
