"""From Pydantic's errors to ours: a JSON pointer, a stable code, a message that never repeats the value."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Annotated, Any, ClassVar, TypeVar, cast, get_args

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainValidator,
    ValidationError,
    ValidatorFunctionWrapHandler,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError
from pydantic_core.core_schema import ErrorType

from language.findings import meaning, path_of, pointer_of, suggestion
from models.errors import FieldError, Invalid

_MOST_UNKNOWN = 100
_STANDARD: frozenset[str] = frozenset(get_args(ErrorType))


def _refuse_number(given: Any) -> Any:
    # It would be seconds since 1970, or milliseconds.
    if not isinstance(given, str) or not re.match(r"\d{4}-", given):
        raise PydanticCustomError("wrong_type", "Must be a time in ISO 8601.")
    return given


Moment = Annotated[AwareDatetime, BeforeValidator(_refuse_number)]
"""A time in a body, with its zone."""


class Body(BaseModel):
    """The base of every request body: unknown fields are refused, with a suggestion for similar names.

    `read_only` names the fields of the same resource that a client may send back without effect.
    """

    model_config = ConfigDict(extra="forbid")

    read_only: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="wrap")
    @classmethod
    def _name_the_unknown(cls, data: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        if isinstance(data, dict):
            data = cls._readable(cast(dict[str, Any], data))
        try:
            return handler(data)
        except ValidationError as error:
            raise ValidationError.from_exception_data(
                error.title, [cls._line(line) for line in error.errors(include_url=False)]
            ) from None

    @classmethod
    def _readable(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of the model, and the first unknown ones: a body can have 100,000 of them."""
        names = {field.alias or name for name, field in cls.model_fields.items()}
        known = {name: value for name, value in data.items() if name in names and name not in cls.read_only}
        unknown = ((n, v) for n, v in data.items() if n not in names and n not in cls.read_only)
        return known | dict(islice(unknown, _MOST_UNKNOWN))

    @classmethod
    def _line(cls, line: Any) -> InitErrorDetails:
        kind, location, context = line["type"], line["loc"], line.get("ctx", {})
        if kind == "extra_forbidden" and len(location) == 1:
            names = [field.alias or name for name, field in cls.model_fields.items()]
            hint = suggestion(str(location[0]), names) or f" Fields are: {', '.join(names)}."
            kind = PydanticCustomError("unknown_field", "There is no such field here.{hint}", {"hint": hint})
        elif kind not in _STANDARD:
            kind = PydanticCustomError(kind, line["msg"].replace("{", "(").replace("}", ")"))
        return InitErrorDetails(type=kind, loc=location, input=line["input"], ctx=context)


def as_it_came(documented: Any) -> PlainValidator:
    """Return a validator for a body that the route's function validates; `documented` is for OpenAPI."""
    return PlainValidator(_object, json_schema_input_type=documented)


def _object(body: Any) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise PydanticCustomError("wrong_type", "The body must be an object.")
    return cast(dict[str, Any], body)


SomeBody = TypeVar("SomeBody", bound=Body)


def validate_body(model: type[SomeBody], body: dict[str, Any], context: Any) -> SomeBody:
    """Validate a body as the route would, with a context for the validators of its fields.

    Raises:
        Invalid: with all errors in it.
    """
    try:
        return model.model_validate(body, context=context)
    except ValidationError as error:
        found = [{**line, "loc": ("body", *line["loc"])} for line in error.errors(include_url=False)]
        raise Invalid(field_errors(found, body)) from None


def field_errors(found: Iterable[Any], body: Any) -> list[FieldError]:
    """Return all errors in the form of the API.

    Args:
        found: Pydantic's errors, with FastAPI's locations (`body`, `query` or `header` first).
        body: the parsed body, which distinguishes its names from Pydantic's names for members of a union.
    """
    return [_field_error(item, body) for item in found]


def _field_error(item: Any, body: Any) -> FieldError:
    kind: str = item["type"]
    # A kind that is not Pydantic's is one of ours, and so is its message.
    code, message = meaning(kind, item.get("ctx") or {}) if kind in _STANDARD else (kind, item["msg"])
    place, *path = item["loc"]
    if place == "body":
        return FieldError(pointer_of(path_of(path, body, kind)), code, message)
    return FieldError("", code, message, parameter=".".join(str(part) for part in path))
