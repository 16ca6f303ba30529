"""The answers of tools: the routes' answers reduced to what a model needs, and their schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import orjson
from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel

MAX_BYTES = 8 * 1024
"""The size limit of an answer as JSON, unless the full one is requested."""

JSONObject: TypeAlias = dict[str, Any]

_EMPTY: tuple[Any, ...] = (None, "", [], {})
# The limits of lists and texts, from mild to hard, until an answer fits.
_CAPS = ((100, 4000), (50, 2000), (25, 1000), (10, 500), (5, 250), (3, 120), (1, 60))
_DEEPEST = 1


def make_result(
    answer: Mapping[str, Any], *, full: bool = False, hint: str = "", untrusted: Sequence[str] = ()
) -> CallToolResult:
    """Return the result of a tool.

    Args:
        answer: JSON.
        full: return all of it, however long.
        hint: how to get the cut parts, if any.
        untrusted: places that may hold strangers' text, such as `steps[].output`. A model sees the list of
            the places present before it reads them.
    """
    room = MAX_BYTES - len(orjson.dumps({"untrusted": untrusted}))
    shown = dict(answer) if full else prune_answer(answer, hint, room)
    if places := [place for place in untrusted if _holds(shown, place)]:
        shown = {"untrusted": places, **shown}
    text = orjson.dumps(shown).decode()
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=shown)


def _holds(value: Any, place: str) -> bool:
    """Return whether a place such as `steps[].output` holds anything."""
    name, _, rest = place.partition(".")
    inner: Any = cast(JSONObject, value).get(name.removesuffix("[]")) if isinstance(value, dict) else None
    if inner in _EMPTY:
        return False
    items = cast(list[Any], inner) if name.endswith("[]") and isinstance(inner, list) else [inner]
    return not rest or any(_holds(item, rest) for item in items)


def prune_answer(answer: Mapping[str, Any], hint: str, most: int = MAX_BYTES) -> JSONObject:
    """Return an answer without empty members, its lists and texts cut to at most this many bytes.

    Its `omitted` lists the cuts.
    """
    whole = cast(JSONObject, _without_empty(answer))
    if len(orjson.dumps(whole)) <= most:
        return whole
    for items, characters in _CAPS:
        cuts: dict[str, str] = {}
        shown = {name: _cut_value(value, name, items, characters, cuts) for name, value in whole.items()}
        told = [*list(cuts.values())[:10], *([hint] if hint else [])]
        if len(orjson.dumps(shown | {"omitted": told})) <= most:
            return shown | {"omitted": told}
    # With too many members, the first ones are kept, as far as they fit.
    shown, room = cast(JSONObject, {}), most - 512
    for name, value in whole.items():
        small = _cut_value(value, name, *_CAPS[-1], {})
        room -= len(orjson.dumps({name: small}))
        if room > 0:
            shown[name] = small
    left_out = ", ".join(name for name in whole if name not in shown)
    return shown | {"omitted": [text for text in (f"left out: {left_out[:200]}", hint) if text]}


def _without_empty(value: Any) -> Any:
    if isinstance(value, Mapping):
        members = {name: _without_empty(inner) for name, inner in cast(Mapping[str, Any], value).items()}
        return {name: inner for name, inner in members.items() if inner not in _EMPTY}
    if isinstance(value, list):
        return [_without_empty(inner) for inner in cast(list[Any], value)]
    return value


def _cut_value(value: Any, place: str, items: int, characters: int, cuts: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {
            name: _cut_value(inner, f"{place}.{name}", items, characters, cuts)
            for name, inner in cast(JSONObject, value).items()
        }
    if isinstance(value, list):
        inner = cast(list[Any], value)
        if len(inner) > items:
            cuts.setdefault(place, f"{place}: {items} of {len(inner)} items are shown")
        return [_cut_value(one, f"{place}[]", items, characters, cuts) for one in inner[:items]]
    if isinstance(value, str) and len(value) > characters:
        cuts.setdefault(place, f"{place}: texts are cut after {characters} characters")
        return value[:characters] + "…"
    return value


# Members that answers have, and agents hardly need to know of: the list of tools has reached its size limit.
_UNDECLARED = frozenset(
    {"attempt_started_at", "graph", "queued_at", "search", "seen_at", "seen_run_id", "unseen_changes"}
)


def schema_of(model: type[BaseModel]) -> JSONObject:
    """Return a JSON Schema for a tool's answer of this model: its members, all optional.

    Their meaning is in the OpenAPI document. `omitted` and `untrusted`, which any answer may have, are
    described in the server's instructions, because the list of tools has reached its size limit.
    """
    whole = model.model_json_schema(mode="serialization")
    return _shallow(whole, cast(JSONObject, whole.get("$defs", {})), 0)


def schema(**members: JSONObject) -> JSONObject:
    """Return a JSON Schema for an object with these members, all optional."""
    return {"type": "object", "properties": members}


def _shallow(schema: JSONObject, definitions: JSONObject, depth: int) -> JSONObject:
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]] | {
            name: value for name, value in schema.items() if name != "$ref"
        }
    arms = [arm for arm in schema.get("anyOf", []) if arm != {"type": "null"}]
    if len(arms) == 1:
        return _or_null(_shallow(arms[0], definitions, depth))
    # Enumerated values have a type already.
    shown = _pick_members(schema, "enum" if "enum" in schema else "type")
    if "properties" in schema and depth < _DEEPEST:
        shown["properties"] = {
            name: _shallow(inner, definitions, depth + 1)
            for name, inner in schema["properties"].items()
            if name not in _UNDECLARED
        }
    elif "items" in schema and depth < _DEEPEST and isinstance(schema["items"], dict):
        shown["items"] = _shallow(cast(JSONObject, schema["items"]), definitions, _DEEPEST)
    return shown


def _or_null(schema: JSONObject) -> JSONObject:
    """Return the schema with null allowed, as in an answer that was requested in full."""
    if "enum" in schema:
        schema["enum"] = [*schema["enum"], None]
    return schema | ({"type": [schema["type"], "null"]} if isinstance(schema.get("type"), str) else {})


def _pick_members(schema: JSONObject, *names: str) -> JSONObject:
    return {name: schema[name] for name in names if name in schema}
