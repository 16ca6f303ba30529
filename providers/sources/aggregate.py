"""The merging of many sources' fields into one answer that names the source of each value. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_origin

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError

from models.lookups.lookups import LookupAnswer
from models.names import bare_name, company_name
from providers.sources.base import Fields, Rule, Source, Spec, Unsure


@dataclass(frozen=True)
class Merged:
    """The merged fields: one value for every field that any source knows.

    Attributes:
        fields: path → value.
        sources: path → the sources that this value is from.
        conflicts: path → source → value, where sources differ.
    """

    fields: Fields
    sources: dict[str, list[str]]
    conflicts: dict[str, dict[str, Any]]


Types = Mapping[str, Callable[[Any], bool]]
"""Path → a check that a value has the type of the answer's field."""


class Declared(NamedTuple):
    """The checked fields of a source.

    Attributes:
        fields: the known values, without those that drifted.
        unsure: the fields of which it may know more, or something else, than it could find out now.
        drifted: the fields that are undeclared or have a value of the wrong type.
        doubts: the unsure fields for which it reports a reason, or who contradicts whom.
    """

    fields: Fields
    unsure: frozenset[str]
    drifted: list[str]
    doubts: Mapping[str, Unsure]


def check_declared(spec: Spec, fields: Mapping[str, Any], types: Types | None = None) -> Declared:
    """Check the fields of a source, and sort them into known, unsure and drifted ones.

    An undeclared field, or a value of another type than the answer's, means that the format of the source has
    changed since its parser was written.
    """
    known: Fields = {}
    unsure: set[str] = set()
    drifted: list[str] = []
    doubts: dict[str, Unsure] = {}
    for path, value in fields.items():
        if isinstance(value, Unsure):
            unsure.add(path)
            if value.why or value.said:
                doubts[path] = value
            value = value.value
        if path not in spec.fields:
            drifted.append(path)
        elif not _unknown(value):
            if types is None or types[path](value):
                known[path] = value
            else:
                drifted.append(path)
    return Declared(known, frozenset(unsure), drifted, doubts)


def types_of(source: Source, kind: type[BaseModel]) -> Types:
    """Return the required type of each field of a source that is used in the kind with this answer."""
    return {path: _type_at(kind, source.places.get(path, path)) for path in source.spec.fields}


@cache
def _type_at(answer: type[BaseModel], path: str) -> Callable[[Any], bool]:
    block, _, rest = path.partition(".")
    if rest:
        inner = _block(answer, block)
        return _type_at(inner, rest) if inner else _nothing_fits
    annotation: Any = answer.model_fields[block].annotation
    alternatives = get_args(annotation) if get_origin(annotation) is UnionType else (annotation,)
    plain = [one for one in alternatives if one is not NoneType]
    if len(plain) == 1 and plain[0] in _PLAIN:
        return _PLAIN[plain[0]]
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)

    def valid(value: Any) -> bool:
        try:
            adapter.validate_python(value)
        except ValidationError:
            return False
        return True

    return valid


def _nothing_fits(value: Any) -> bool:
    return False


_PLAIN: dict[Any, Callable[[Any], bool]] = {
    str: lambda value: isinstance(value, str),
    bool: lambda value: isinstance(value, bool),
    int: lambda value: isinstance(value, int) and not isinstance(value, bool),
    float: lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
}


def _unknown(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and not math.isfinite(value))


def merge(
    answers: Iterable[tuple[str, Fields]],
    rules: Mapping[str, Rule],
    together: Collection[frozenset[str]] = (),
) -> Merged:
    """Merge the fields of the sources, which come in the order of precedence.

    Args:
        answers: source → its fields.
        rules: how several values of one path become one; `first` by default.
        together: groups of paths that make sense only together, such as the parts of a name. The first source
            that fills any path of a group fills the group alone.
    """
    merged = Merged({}, {}, {})
    several: dict[str, dict[str, Any]] = {}
    group_of = {path: group for group in together for path in group}
    filled: dict[frozenset[str], Fields] = {}
    for name, fields in answers:
        alone = [name]
        for path, value in fields.items():
            group = group_of.get(path)
            if group is not None and path not in filled.setdefault(group, fields):
                continue
            if path not in merged.fields:
                # Most fields are filled by one source alone, and then every rule returns the same value.
                merged.fields[path] = value
                merged.sources[path] = alone
            elif path in several:
                several[path][name] = value
            else:
                several[path] = {merged.sources[path][0]: merged.fields[path], name: value}
    for path, values in several.items():
        rule = rules.get(path, "first")
        value = merged.fields[path] = _RULES[rule](list(values.values()))
        if rule in UNIONS:
            merged.sources[path] = list(values)
            continue
        same = company_name if rule == "company" else _as_it_is
        merged.sources[path] = [name for name, given in values.items() if same(given) == same(value)]
        if len(merged.sources[path]) < len(values):
            merged.conflicts[path] = values
    for path, rule in rules.items():
        if rule in UNIONS and path in merged.fields and path not in several:
            merged.fields[path] = _RULES[rule]([merged.fields[path]])
    return merged


def _as_it_is(value: Any) -> Any:
    return value


def _first(values: list[Any]) -> Any:
    return values[0]


def _any_true(values: list[Any]) -> bool:
    return any(value is True for value in values)


def _union(values: list[Any]) -> list[Any]:
    items = (item for value in values for item in value)
    return list({orjson.dumps(item, option=orjson.OPT_SORT_KEYS): item for item in items}.values())


def _union_by_name(values: list[Any]) -> list[Any]:
    """Return the items of all values, each name once in its first spelling."""
    names: dict[str, Any] = {}
    for value in values:
        for item in value:
            if item.strip():
                names.setdefault(bare_name(item), item)
    return list(names.values())


def _union_by_url(values: list[Any]) -> list[Any]:
    """Return the first item of each page: all first ranks of the sources, then all second ranks."""
    pages: dict[str, Any] = {}
    for rank in range(max(len(value) for value in values)):
        for value in values:
            if rank < len(value):
                pages.setdefault(bare_url(value[rank]["url"]), value[rank])
    return list(pages.values())


def bare_url(url: str) -> str:
    """Return an address without parts that do not change the page: scheme, `www.`, fragment, last slash."""
    address = url.partition("#")[0].partition("://")[2]
    host, slash, path = address.partition("/")
    return f"{host.lower().removeprefix('www.')}{slash}{path}".rstrip("/")


UNIONS: frozenset[Rule | None] = frozenset({"union", "union_by_name", "union_by_url"})
"""Rules by which every source adds to the value."""

_RULES: dict[Rule, Any] = {
    "first": _first,
    "company": _first,
    "any_true": _any_true,
    "union": _union,
    "union_by_name": _union_by_name,
    "union_by_url": _union_by_url,
    "max": max,
}


def paths(model: type[BaseModel]) -> frozenset[str]:
    """Return all fields of an answer that sources can fill, as dotted paths."""
    found: set[str] = set()
    for name in _own_fields(model):
        block = _block(model, name)
        found |= {f"{name}.{path}" for path in paths(block)} if block else {name}
    return frozenset(found)


def nest(fields: Mapping[str, Any], answer: type[BaseModel]) -> dict[str, Any]:
    """Return the fields nested as in the answer.

    Unknown values are null, `[]` for an array, and 0 for a count that is never null. Blocks are always
    present, except those that may be null.
    """
    result = orjson.loads(_nothing(answer))
    for path, value in fields.items():
        blocks, name = _way(answer, path)
        holder = result
        for block, inner in blocks:
            if holder[block] is None:
                holder[block] = orjson.loads(_nothing(inner))
            holder = holder[block]
        holder[name] = value
    return result


@cache
def _way(answer: type[BaseModel], path: str) -> tuple[list[tuple[str, type[BaseModel]]], str]:
    """Return the blocks on the path to a field, each with its model, and the field's own name."""
    *blocks, name = path.split(".")
    way: list[tuple[str, type[BaseModel]]] = []
    for block in blocks:
        inner = _block(way[-1][1] if way else answer, block)
        assert inner is not None
        way.append((block, inner))
    return way, name


@cache
def _nothing(model: type[BaseModel]) -> bytes:
    """Return an empty answer as JSON. Parsing it is the quickest way to a fresh copy."""
    return orjson.dumps({name: _unknown_value(model, name) for name in _own_fields(model)})


def _unknown_value(model: type[BaseModel], name: str) -> Any:
    annotation: Any = model.model_fields[name].annotation
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return orjson.loads(_nothing(annotation))
    if _is_list(annotation):
        return []
    return 0 if annotation is int else None


def _is_list(annotation: Any) -> bool:
    """Return whether the type is an array, also one that may be null."""
    arms = get_args(annotation) if get_origin(annotation) is UnionType else (annotation,)
    return any(get_origin(arm) is list for arm in arms)


def _own_fields(model: type[BaseModel]) -> list[str]:
    """Return the fields of a model without the common answer fields, which no source fills."""
    common = {*LookupAnswer.model_fields, "verdict"} if issubclass(model, LookupAnswer) else set[str]()
    return [name for name in model.model_fields if name not in common]


@cache
def _block(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    """Return the model of a nested block, which may be optional; None for a plain field or a list."""
    annotation: Any = model.model_fields[name].annotation
    if _is_list(annotation):
        return None
    candidates = (annotation, *get_args(annotation))
    return next((one for one in candidates if isinstance(one, type) and issubclass(one, BaseModel)), None)
