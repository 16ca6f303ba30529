"""Schemas of the OpenAPI document as rows for reading: each field by its dotted path, type and meaning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

_REFERENCE = "#/components/schemas/"
_BOUNDS = {
    "minimum": "≥ {}", "maximum": "≤ {}", "exclusiveMinimum": "> {}", "minLength": "{} characters or more",
    "maxLength": "{} characters at most", "minItems": "{} items or more", "maxItems": "{} items at most",
}  # fmt: skip

Schema = dict[str, Any]


class FieldRow(NamedTuple):
    """A field of an object, or of one within it.

    Attributes:
        path: as in `results[].location.city`; `*` stands for any name.
        kind: the type of its values.
        required: whether it is always present.
        description: its meaning.
        objects: the names of schemas that `kind` names.
    """

    path: str
    kind: str
    required: bool
    description: str
    objects: tuple[str, ...] = ()


class Fields:
    """Reads the schemas of one document."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._schemas: dict[str, Schema] = document["components"]["schemas"]

    def get_schema(self, name: str) -> Schema:
        """Return the schema of this name."""
        return self._schemas[name]

    def rows(self, schema: Schema, path: str = "", above: tuple[str, ...] = ()) -> Iterator[FieldRow]:
        """Yield the fields of the object that `schema` describes, followed by those of objects within it.

        Neither a choice among several objects nor an object within itself is expanded: they are named.
        """
        name, resolved = self._resolve(schema)
        if name in above:
            return
        inside = (*above, name) if name else above
        required = resolved.get("required", [])
        for field, described in resolved.get("properties", {}).items():
            here = f"{path}.{field}" if path else field
            inner, suffix = self._inner(described)
            kind, objects = self.kind(described, inside)
            yield FieldRow(here, kind, field in required, self._description(described), objects)
            if inner is not None:
                yield from self.rows(inner, here + suffix, inside)
        if not path and resolved.get("type") == "array" and "items" in resolved:
            yield from self.rows(resolved["items"], "[]", inside)

    def kind(self, schema: Schema, above: tuple[str, ...] = ()) -> tuple[str, tuple[str, ...]]:
        """Return the type of the values in words, and the schemas that it names."""
        name, resolved = self._resolve(schema)
        if choices := resolved.get("anyOf") or resolved.get("oneOf"):
            found = [self.kind(one, above) for one in choices]
            if len([one for one in choices if "$ref" in one]) > 1:
                found = [self._find_name(one) or pair for one, pair in zip(choices, found, strict=True)]
            words = list(dict.fromkeys(kind for kind, _ in found))
            return " or ".join(words), tuple(named for _, objects in found for named in objects)
        if name and name in above:
            return name, (name,)
        if "const" in resolved:
            return f"“{resolved['const']}”", ()
        if "enum" in resolved:
            return " | ".join(f"“{value}”" for value in resolved["enum"]), ()
        kind = resolved.get("type", "any JSON")
        if kind == "array":
            inner, objects = self.kind(resolved.get("items", {}), above)
            return self._add_bounds(f"array of {inner}", resolved), objects
        if kind == "object" and (values := _values(resolved)):
            inner, objects = self.kind(values, above)
            return f"object of {inner}", objects
        return self._add_bounds(
            f"{kind} ({resolved['format']})" if "format" in resolved else kind, resolved
        ), ()

    def _find_name(self, schema: Schema) -> tuple[str, tuple[str, ...]] | None:
        name = schema.get("$ref", "").removeprefix(_REFERENCE)
        return (name, (name,)) if name else None

    def _resolve(self, schema: Schema) -> tuple[str, Schema]:
        name = schema.get("$ref", "").removeprefix(_REFERENCE)
        return name, self._schemas[name] if name else schema

    def _inner(self, schema: Schema) -> tuple[Schema | None, str]:
        """Return the single object within a field, and the text between their paths."""
        _, resolved = self._resolve(schema)
        choices = [one for one in resolved.get("anyOf", [resolved]) if one.get("type") != "null"]
        if len(choices) != 1:
            return None, ""
        only = schema if choices[0] is resolved else choices[0]
        _, resolved = self._resolve(only)
        if resolved.get("type") == "array":
            inner, suffix = self._inner(resolved.get("items", {}))
            return inner, f"[]{suffix}"
        values = _values(resolved)
        if values and not resolved.get("properties"):
            inner, suffix = self._inner(values)
            return inner, f".*{suffix}"
        return (only, "") if resolved.get("properties") else (None, "")

    def _description(self, schema: Schema) -> str:
        text = schema.get("description") or self._resolve(schema)[1].get("description", "")
        return str(text)

    def _add_bounds(self, kind: str, schema: Schema) -> str:
        bounds = [text.format(schema[name]) for name, text in _BOUNDS.items() if schema.get(name) is not None]
        return ", ".join([kind, *bounds])


def _values(schema: Schema) -> Schema | None:
    """Return the schema of the values of an object with any names."""
    values: Any = schema.get("additionalProperties")
    return cast(Schema, values) if isinstance(values, dict) else None
