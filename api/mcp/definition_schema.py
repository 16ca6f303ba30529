"""The JSON Schema of workflows for tools: that of the documentation, in the shortest form.

Each tool that takes a definition carries its own copy. So members common to all steps are listed once, there
are no references (which many clients do not follow), and limits are left to validation, which words them
better.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from api.mcp.answers import JSONObject
from language.validation.definition import Document

_KEPT = ("type", "enum", "const", "required", "description")
# The members of a step that depend on its type.
_OWN = ("type", "config")


@cache
def definition_members() -> JSONObject:
    """Return the members of a workflow, each with its schema."""
    whole = Document.model_json_schema()
    members = _short(whole, cast(JSONObject, whole["$defs"]))["properties"]
    steps = members["steps"]
    steps["items"] = _merge_steps(steps["items"]["anyOf"])
    return members


def _short(schema: JSONObject, definitions: JSONObject) -> JSONObject:
    """Replace the references of a schema by their targets, and leave limits out."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]] | _without_ref(schema)
    shown = {name: schema[name] for name in _KEPT if name in schema}
    if "properties" in schema:
        shown["properties"] = {
            name: _short(inner, definitions) for name, inner in schema["properties"].items()
        }
    if "items" in schema:
        shown["items"] = _short(schema["items"], definitions)
    arms: list[JSONObject] = [
        _short(arm, definitions) for arm in schema.get("anyOf", schema.get("oneOf", ()))
    ]
    return shown | _either(arms)


def _without_ref(schema: JSONObject) -> JSONObject:
    return {name: value for name, value in schema.items() if name != "$ref"}


def _either(arms: list[JSONObject]) -> JSONObject:
    """Merge several schemas into one: types alone are listed, and null is one more type."""
    others = [arm for arm in arms if arm != {"type": "null"}]
    if all(arm.keys() == {"type"} for arm in arms):
        return {"type": [arm["type"] for arm in arms]} if arms else {}
    if len(others) == 1 and len(arms) == 2 and isinstance(others[0].get("type"), str):
        null: JSONObject = {"type": [others[0]["type"], "null"]}
        return others[0] | null | ({"enum": [*others[0]["enum"], None]} if "enum" in others[0] else {})
    return {"anyOf": arms}


def _merge_steps(steps: list[JSONObject]) -> JSONObject:
    """Merge the kinds of steps: common members are listed once, beside the own members of each type."""
    shared: JSONObject = {}
    for step in steps:
        shared |= {name: inner for name, inner in step["properties"].items() if name not in _OWN}
    arms = [{"properties": {name: _kind(step["properties"][name]) for name in _OWN}} for step in steps]
    return {"type": "object", "required": ["id", "type"], "properties": shared, "anyOf": arms}


def _kind(schema: JSONObject) -> JSONObject:
    """Remove from the `type` or `config` of a step what its members describe already."""
    return {name: value for name, value in schema.items() if name != "description"}


def without_texts(schema: Any) -> Any:
    """Remove the descriptions of a schema, for a tool whose neighbour has them."""
    if isinstance(schema, list):
        return [without_texts(inner) for inner in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    members = cast(JSONObject, schema)
    return {
        name: without_texts(inner)
        for name, inner in members.items()
        if not (name == "description" and isinstance(inner, str))
    }
