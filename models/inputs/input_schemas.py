"""The check that JSON Schemas (draft 2020-12), which users write for inputs of workflows, are usable.

A schema comes from a stranger and is applied to the data of strangers. Therefore it must not contain keywords
that can be slow or reach other resources: patterns (a regular expression can take for ever), references
outside itself, `unevaluated…`. `format` is checked for the formats in FORMATS; others have no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple, cast
from urllib.parse import unquote

import orjson

from language.findings import Finding, escape_name, nearest

DRAFT = "https://json-schema.org/draft/2020-12/schema"
MAX_BYTES = 32 * 1024
MAX_SUBSCHEMAS = 1000
MAX_DEPTH = 50
FORMATS = ("date", "date-time", "email", "ipv4", "ipv6", "uuid")

_ONE = frozenset({"not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames"})
_SEVERAL = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED = frozenset({"properties", "dependentSchemas", "$defs", "definitions"})
# The keywords whose subschemas apply to the same value as the schema around them.
_SAME_VALUE = frozenset({"not", "if", "then", "else", "allOf", "anyOf", "oneOf", "dependentSchemas"})
_REMARKS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment",
     "contentEncoding", "contentMediaType", "contentSchema", "$vocabulary"}
)  # fmt: skip
_PATTERNS = "Patterns are not supported: a regular expression can take for ever. There are enum and format."
_REFUSED = {
    "pattern": _PATTERNS,
    "patternProperties": _PATTERNS,
    **dict.fromkeys(("$schema", "$id"), "This can stand at the top of the schema only."),
    "unevaluatedItems": "Not supported; use items and prefixItems.",
    "unevaluatedProperties": "Not supported; use additionalProperties.",
    **dict.fromkeys(("$dynamicRef", "$dynamicAnchor", "$anchor"), "Not supported; use $ref and $defs."),
}
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in cast(list[Any], value))


def _is_dependencies(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_names, cast(dict[str, Any], value).values()))


def _is_type(value: Any) -> bool:
    names = cast(list[Any], value) if isinstance(value, list) else [value]
    return bool(names) and all(name in _TYPES for name in names)


_COUNT, _NUMBER = (_is_count, "Must be a whole number, 0 or more."), (_is_number, "Must be a number.")
_VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "type": (_is_type, f"Must be one of {', '.join(_TYPES)}, or an array of them."),
    "enum": (lambda value: isinstance(value, list), "Must be an array."),
    "const": (lambda value: True, ""),
    "required": (_is_names, "Must be an array of names."),
    "dependentRequired": (_is_dependencies, "Must be an object of arrays of names."),
    "format": (lambda value: isinstance(value, str), "Must be a string."),
    "uniqueItems": (lambda value: isinstance(value, bool), "Must be true or false."),
    "multipleOf": (lambda value: _is_number(value) and value > 0, "Must be a number above 0."),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBER),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
         "minContains", "maxContains"), _COUNT,
    ),
}  # fmt: skip
_KEYWORDS = _ONE | _SEVERAL | _NAMED | _REMARKS | _VALUES.keys() | {"$ref"}


class ParsedSchema(NamedTuple):
    """A schema reduced to keywords that check an input, and its errors."""

    schema: dict[str, Any]
    findings: list[Finding]


def read_schema(schema: dict[str, Any], pointer: str) -> ParsedSchema:
    """Read the schema at a pointer."""
    if len(orjson.dumps(schema)) > MAX_BYTES:
        message = f"A schema may have {MAX_BYTES // 1024} KiB."
        return ParsedSchema({}, [Finding(pointer, "schema_too_large", message)])
    reading = _Reading(pointer)
    return ParsedSchema(reading.whole(schema), reading.findings)


class _Reading:
    """The reading of one schema; `_places` maps each subschema to those that apply to the same value."""

    def __init__(self, pointer: str) -> None:
        self.findings: list[Finding] = []
        self._root = pointer
        self._places: dict[str, list[str]] = {}
        self._references: list[tuple[str, str]] = []

    def whole(self, schema: dict[str, Any]) -> dict[str, Any]:
        draft = schema.get("$schema", DRAFT)
        if not isinstance(draft, str) or draft.rstrip("#") != DRAFT:
            self._refuse("/$schema", "unsupported_draft", f"Only draft 2020-12 is supported: {DRAFT}")
        top = {name: value for name, value in schema.items() if name not in ("$schema", "$id")}
        copy = self._schema(top, "", 0)
        for place, target in self._references:
            if target not in self._places:
                self._refuse(f"{place}/$ref", "unknown_reference", "There is no schema at this place.")
            else:
                self._places[place].append(target)
        try:
            TopologicalSorter(self._places).prepare()
        except CycleError as error:
            message = "This schema refers to itself for the same value, and so never ends."
            self._refuse(error.args[1][0], "endless_reference", message)
        return copy

    def _refuse(self, place: str, code: str, message: str) -> None:
        self.findings.append(Finding(self._root + place, code, message))

    def _schema(self, schema: Any, place: str, depth: int) -> Any:
        if isinstance(schema, bool):
            self._places[place] = []
            return schema
        if not isinstance(schema, dict):
            self._refuse(place, "wrong_type", "A schema is an object, true or false.")
            return True
        self._places[place] = []
        if len(self._places) > MAX_SUBSCHEMAS or depth > MAX_DEPTH:
            if len(self._places) == MAX_SUBSCHEMAS + 1 or depth == MAX_DEPTH + 1:
                message = f"At most {MAX_SUBSCHEMAS} schemas in one, nested {MAX_DEPTH} deep, are allowed."
                self._refuse(place, "schema_too_large", message)
            return True
        copy: dict[str, Any] = {}
        for keyword, value in cast(dict[str, Any], schema).items():
            self._keyword(copy, keyword, value, place, depth + 1)
        return copy

    def _keyword(self, copy: dict[str, Any], keyword: str, value: Any, place: str, depth: int) -> None:
        at = f"{place}/{escape_name(keyword)}"
        if keyword in _REFUSED:
            self._refuse(at, "unsupported_keyword", _REFUSED[keyword])
        elif keyword == "$ref":
            copy[keyword] = self._reference(value, place, at)
        elif keyword in _ONE | _SEVERAL | _NAMED:
            copy[keyword] = self._read_subschemas(keyword, value, place, depth)
        elif keyword in _VALUES:
            fits, message = _VALUES[keyword]
            if not fits(value):
                self._refuse(at, "invalid_value", message)
            copy[keyword] = value
        elif keyword not in _REMARKS and (near := nearest(keyword, _KEYWORDS)):
            self._refuse(at, "unknown_keyword", f"There is no such keyword. Did you mean {near}?")

    def _read_subschemas(self, keyword: str, value: Any, place: str, depth: int) -> Any:
        """Return the schemas that a keyword holds."""
        at = f"{place}/{escape_name(keyword)}"
        named: dict[str, Any] = {}
        if keyword in _ONE:
            named = {at: value}
        elif keyword in _SEVERAL and isinstance(value, list) and value:
            named = {f"{at}/{index}": one for index, one in enumerate(cast(list[Any], value))}
        elif keyword in _NAMED and isinstance(value, dict):
            named = {f"{at}/{escape_name(name)}": one for name, one in cast(dict[str, Any], value).items()}
        else:
            message = f"Must be an {'object' if keyword in _NAMED else 'array'} of schemas."
            self._refuse(at, "wrong_type", message)
            return None
        schemas: list[Any] = [self._schema(one, below, depth) for below, one in named.items()]
        if keyword in _SAME_VALUE:
            self._places[place] += named
        if keyword in _ONE:
            return schemas[0]
        # The library loses the place of an error under `false`; `{"not": {}}` keeps it.
        schemas = [{"not": {}} if one is False else one for one in schemas]
        if keyword in _SEVERAL:
            return schemas
        return dict(zip(cast(dict[str, Any], value), schemas, strict=True))

    def _reference(self, value: Any, place: str, at: str) -> Any:
        if not isinstance(value, str) or not (value == "#" or value.startswith("#/")):
            message = "Only references within the schema are followed: #/$defs/name."
            self._refuse(at, "remote_reference", message)
            return "#"
        self._references.append((place, unquote(value[1:])))
        return value
