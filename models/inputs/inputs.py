"""Inputs of runs: checked against the JSON Schema of their workflow, with bounded effort."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import datetime
from functools import lru_cache
from typing import Any, cast

import orjson
from jsonschema import Draft202012Validator, FormatChecker, ValidationError, validators

from language.definition import Definition
from language.findings import Finding, pointer_of
from language.steps import WaitStep
from models.errors import FieldError, Invalid
from models.inputs import input_schemas
from models.inputs.input_schemas import FORMATS

MAX_ERRORS = 20
MAX_CHECKS = 100_000
"""The most steps of one check: a keyword on a value, an element visited. Each takes a few microseconds."""
INLINE_CHECKS = 500
"""The most steps in the event loop: some two milliseconds."""

# The library quotes the value in every message that it makes: this many bytes cost as much as one step.
_BYTES_QUOTED = 256
# This many bytes of a value in the schema, or elements to be made canonical, cost as much as one step.
_CHEAP = 8
_REFERENCE_COST = 5
_LOOKS_AT_EACH = frozenset(
    {"items", "contains", "propertyNames", "additionalProperties", "uniqueItems", "enum", "const"}
)

Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError] | None]


class _TooMuch(Exception):
    """The budget is used up."""


class _Budget:
    def __init__(self, checks: int, quoted_bytes: int) -> None:
        self.left = checks
        self.message_cost = quoted_bytes // _BYTES_QUOTED

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise _TooMuch


_budget: ContextVar[_Budget] = ContextVar("_budget")


def _charge_keyword(name: str, keyword: Keyword) -> Keyword:
    looks_at_each = name in _LOOKS_AT_EACH

    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        budget = _budget.get()
        cost = _REFERENCE_COST if name == "$ref" else 1
        if isinstance(value, dict | list):
            cost += len(cast(Any, value))
            if name in ("const", "enum"):
                cost = max(cost, len(orjson.dumps(value)) // _CHEAP)
        if looks_at_each and isinstance(instance, dict | list):
            cost += len(cast(Any, instance))
        budget.spend(cost)
        for error in keyword(validator, value, instance, schema) or ():
            budget.spend(budget.message_cost)
            yield error

    return check


def _unique_items(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Check that items are unique in linear time; the library compares each with each."""
    if value and isinstance(instance, list):
        items = cast(list[Any], instance)
        if len({orjson.dumps(_canonical(i), option=orjson.OPT_SORT_KEYS) for i in items}) < len(items):
            yield ValidationError("")


def _canonical(value: Any) -> Any:
    """Return a value in which equal numbers are the same: in JSON Schema, 1.0 is 1."""
    if isinstance(value, dict | list):
        _budget.get().spend(1 + len(cast(Any, value)) // _CHEAP)
    if isinstance(value, list):
        return [_canonical(item) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return {name: _canonical(item) for name, item in cast(dict[str, Any], value).items()}
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**63 else value


def _formats() -> FormatChecker:
    checker = FormatChecker([name for name in FORMATS if name != "date-time"])

    def is_moment(value: object) -> bool:
        return not isinstance(value, str) or datetime.fromisoformat(value).tzinfo is not None

    checker.checks("date-time", raises=ValueError)(is_moment)
    return checker


_KEYWORDS: dict[str, Keyword] = cast(Any, Draft202012Validator).VALIDATORS
_Validator: Any = validators.create(  # pyright: ignore[reportUnknownMemberType]
    meta_schema={},
    validators=cast(
        Any, {n: _charge_keyword(n, k) for n, k in (_KEYWORDS | {"uniqueItems": _unique_items}).items()}
    ),
    type_checker=cast(Any, Draft202012Validator).TYPE_CHECKER,
    format_checker=_formats(),
)

_MESSAGES: dict[str, tuple[str, Callable[[Any], str]]] = {
    "type": ("wrong_type", lambda v: f"Must be of type {v if isinstance(v, str) else ' or '.join(v)}."),
    "enum": ("not_allowed", lambda v: "Must be one of the values that the schema lists."),
    "const": ("not_allowed", lambda v: "Must be the value that the schema names."),
    "format": ("invalid_format", lambda v: f"Must have the format {v}."),
    "minimum": ("out_of_range", lambda v: f"Must be {v} or more."),
    "maximum": ("out_of_range", lambda v: f"Must be {v} or less."),
    "exclusiveMinimum": ("out_of_range", lambda v: f"Must be more than {v}."),
    "exclusiveMaximum": ("out_of_range", lambda v: f"Must be less than {v}."),
    "multipleOf": ("out_of_range", lambda v: f"Must be a multiple of {v}."),
    "minLength": ("too_short", lambda v: f"At least {v} characters are needed."),
    "maxLength": ("too_long", lambda v: f"At most {v} characters are allowed."),
    "minItems": ("too_few_items", lambda v: f"At least {v} items are needed."),
    "maxItems": ("too_many_items", lambda v: f"At most {v} items are allowed."),
    "minProperties": ("too_few_items", lambda v: f"At least {v} fields are needed."),
    "maxProperties": ("too_many_items", lambda v: f"At most {v} fields are allowed."),
    "uniqueItems": ("duplicate_items", lambda v: "No two items may be the same."),
    "anyOf": ("invalid_value", lambda v: "Fits none of the schemas of anyOf."),
    "oneOf": ("invalid_value", lambda v: "Must fit exactly one of the schemas of oneOf."),
    "not": ("invalid_value", lambda v: "Fits the schema of not, which it must not." if v else "Cannot be."),
}


class InputSchema:
    """A schema, ready to check inputs."""

    def __init__(self, schema: dict[str, Any]) -> None:
        """Prepare a schema in which `errors_of` found no errors."""
        self._validator = _Validator(
            input_schemas.read_schema(schema, "").schema, format_checker=_Validator.FORMAT_CHECKER
        )
        self._source = orjson.dumps(schema)

    def __reduce__(self) -> tuple[Callable[[bytes], InputSchema], tuple[bytes]]:
        """Pickle the schema as JSON: another process reads it once, and not again for each input."""
        return _read_once, (self._source,)

    def check(self, value: Any, pointer: str, size: int, checks: int = MAX_CHECKS) -> None:
        """Check that an input meets the schema.

        Args:
            value: the input.
            pointer: its JSON pointer in the request.
            size: the size of the input, in bytes.
            checks: the highest number of steps.

        Raises:
            Invalid: up to MAX_ERRORS errors of the input; `too_much_to_check` or `too_deep` if
                the check exceeds the bounds.
        """
        budget = _Budget(checks, len(self._source) + size)
        _budget.set(budget)
        found: dict[tuple[str, str], FieldError] = {}
        try:
            if budget.message_cost > budget.left:
                raise _TooMuch  # the cost of a message is counted after the library has made it
            errors = self._validator.iter_errors(value)
            for finding in (finding for error in errors for finding in _findings(error, pointer)):
                found.setdefault(finding[:2], FieldError(*finding))
                if len(found) >= MAX_ERRORS:
                    break
        except _TooMuch:
            message = "This is too much to hold against the workflow's input_schema."
            raise Invalid([FieldError(pointer, "too_much_to_check", message)]) from None
        except RecursionError:
            message = "This is nested too deep to hold it against the workflow's input_schema."
            raise Invalid([FieldError(pointer, "too_deep", message)]) from None
        if found:
            raise Invalid(list(found.values()))


@lru_cache(maxsize=64)
def _read_once(source: bytes) -> InputSchema:
    return InputSchema(orjson.loads(source))


def _findings(error: Any, pointer: str) -> Iterator[Finding]:
    """Convert an error of the library to our codes and messages, which do not repeat the input."""
    place = pointer + pointer_of(error.absolute_path)
    keyword, value, instance = error.validator, error.validator_value, error.instance
    if keyword == "required":
        for name in value:
            if name not in instance:
                yield Finding(place + pointer_of([name]), "required", "This field is required.")
    elif keyword == "dependentRequired":
        for name in (
            n for given, names in value.items() if given in instance for n in names if n not in instance
        ):
            yield Finding(place + pointer_of([name]), "required", "This field is required beside the others.")
    elif keyword == "additionalProperties":
        properties = error.schema.get("properties", {})
        for name in (name for name in instance if name not in properties):
            yield Finding(place + pointer_of([name]), "unknown_field", "There is no such field here.")
    elif keyword in _MESSAGES:
        code, message = _MESSAGES[keyword]
        yield Finding(place, code, message(value))
    else:
        yield Finding(place, "invalid_value", "Does not meet the schema.")


def errors_of(definition: Definition) -> Iterator[Finding]:
    """Find the errors in the JSON Schemas of a definition: for its input, and for answers to wait steps."""
    if definition.input_schema is not None:
        yield from input_schemas.read_schema(definition.input_schema, "/input_schema").findings
    for index, step in enumerate(definition.steps):
        if isinstance(step, WaitStep) and step.config.input_schema is not None:
            pointer = f"/steps/{index}/config/input_schema"
            yield from input_schemas.read_schema(step.config.input_schema, pointer).findings
