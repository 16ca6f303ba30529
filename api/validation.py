"""From Pydantic's errors to ours: a JSON pointer, a stable code, a message that never repeats the value."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, ValidatorFunctionWrapHandler, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError
from pydantic_core.core_schema import ErrorType

from models.errors import FieldError

Message = str | Callable[[Mapping[str, Any]], str]

_KINDS: dict[str, tuple[str, Message]] = {
    "missing": ("required", "This field is required."),
    "extra_forbidden": ("unknown_field", "There is no such field here."),
    "json_invalid": ("invalid_json", "The body is not JSON."),
    "string_too_short": ("too_short", lambda c: f"At least {c['min_length']} characters are needed."),
    "string_too_long": ("too_long", lambda c: f"At most {c['max_length']} characters are allowed."),
    "too_short": ("too_few_items", lambda c: f"At least {c['min_length']} items are needed."),
    "too_long": ("too_many_items", lambda c: f"At most {c['max_length']} items are allowed."),
    "literal_error": ("not_allowed", lambda c: f"Must be {c['expected']}."),
    "enum": ("not_allowed", lambda c: f"Must be {c['expected']}."),
    "greater_than": ("out_of_range", lambda c: f"Must be more than {c['gt']}."),
    "greater_than_equal": ("out_of_range", lambda c: f"Must be {c['ge']} or more."),
    "less_than": ("out_of_range", lambda c: f"Must be less than {c['lt']}."),
    "less_than_equal": ("out_of_range", lambda c: f"Must be {c['le']} or less."),
    "multiple_of": ("out_of_range", lambda c: f"Must be a multiple of {c['multiple_of']}."),
    "finite_number": ("out_of_range", "Must be a finite number."),
    "string_pattern_mismatch": ("invalid_format", "This does not have the right form."),
    "timezone_aware": ("timezone_missing", "A time needs a zone, such as Z."),
    "datetime_future": ("not_in_future", "Must be in the future."),
    "union_tag_invalid": ("not_allowed", lambda c: f"Must be one of {c['expected_tags']}."),
    "union_tag_not_found": ("required", lambda c: f"The field {c['discriminator']} is required."),
}
_TYPE_NAMES = {
    "string": "a string", "int": "an integer", "float": "a number", "bool": "true or false",
    "list": "an array", "set": "an array", "tuple": "an array", "dict": "an object", "model": "an object",
    "dataclass": "an object", "mapping": "an object", "datetime": "a time in ISO 8601", "date": "a date",
    "time": "a time of day", "uuid": "a UUID", "url": "a URL", "decimal": "a number", "none": "null",
}  # fmt: skip
_TYPE_SUFFIXES = (
    "_type", "_parsing", "_from_date_parsing", "_from_datetime_parsing", "_from_datetime_inexact",
    "_from_float", "_attributes_type", "_parsing_size", "_object_invalid",
)  # fmt: skip


class Body(BaseModel):
    """The base of every request body: unknown fields are refused, with the right name where one is near.

    `read_only` names the fields of the same resource that a client may send back without effect.
    """

    model_config = ConfigDict(extra="forbid")

    read_only: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="wrap")
    @classmethod
    def _name_the_unknown(cls, data: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        if cls.read_only and isinstance(data, dict):
            data = {k: v for k, v in data.items() if k not in cls.read_only}  # pyright: ignore[reportUnknownVariableType]
        try:
            return handler(data)
        except ValidationError as error:
            raise ValidationError.from_exception_data(
                error.title, [cls._line(line) for line in error.errors(include_url=False)]
            ) from None

    @classmethod
    def _line(cls, line: Any) -> InitErrorDetails:
        kind, location, context = line["type"], line["loc"], line.get("ctx", {})
        if kind == "extra_forbidden" and len(location) == 1:
            names = [field.alias or name for name, field in cls.model_fields.items()]
            near = difflib.get_close_matches(str(location[0]), names, n=1)
            hint = f" Did you mean {near[0]}?" if near else f" Fields are: {', '.join(names)}."
            kind = PydanticCustomError("unknown_field", "There is no such field here.{hint}", {"hint": hint})
        elif kind not in _STANDARD:
            kind = PydanticCustomError(kind, line["msg"].replace("{", "(").replace("}", ")"))
        return InitErrorDetails(type=kind, loc=location, input=line["input"], ctx=context)


_STANDARD: frozenset[str] = frozenset(get_args(ErrorType))


def field_errors(found: Iterable[Any], body: Any) -> list[FieldError]:
    """All that is wrong, as the API says it.

    Args:
        found: Pydantic's errors, with FastAPI's locations (`body`, `query` or `header` first).
        body: the parsed body, to tell its names from Pydantic's names for the arms of a union.
    """
    return [_field_error(item, body) for item in found]


def _field_error(item: Any, body: Any) -> FieldError:
    code, message = _meaning(item["type"], item["msg"], item.get("ctx") or {})
    place, *path = item["loc"]
    if place == "body":
        return FieldError(_pointer(path, body, item["type"]), code, message)
    return FieldError("", code, message, parameter=".".join(str(part) for part in path))


def _meaning(kind: str, text: str, context: Mapping[str, Any]) -> tuple[str, str]:
    if kind in _KINDS:
        code, message = _KINDS[kind]
        return code, message if isinstance(message, str) else message(context)
    if kind not in _STANDARD:
        return kind, text  # our own PydanticCustomError: its message is ours too
    for suffix in _TYPE_SUFFIXES:
        name = kind.removesuffix(suffix)
        if name != kind and name in _TYPE_NAMES:
            return "wrong_type", f"Must be {_TYPE_NAMES[name]}."
    return "invalid_value", "This is not a valid value."


def _pointer(path: Sequence[int | str], body: Any, kind: str) -> str:
    parts: list[str] = []
    for position, part in enumerate(path):
        if isinstance(body, list) and isinstance(part, int) and part < len(body):  # pyright: ignore[reportUnknownArgumentType]
            body = body[part]  # pyright: ignore[reportUnknownVariableType]
        elif isinstance(body, dict) and part in body:
            body = body[part]  # pyright: ignore[reportUnknownVariableType]
        elif not (kind == "missing" and position == len(path) - 1):
            continue  # the name of an arm of a union, not of anything in the body
        parts.append(str(part).replace("~", "~0").replace("/", "~1"))
    return "".join(f"/{part}" for part in parts)
