"""The base class of the API's answers, and their conversion to JSON."""

from __future__ import annotations

from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict


class View(BaseModel):
    """An answer that always has all of its fields: OpenAPI lists fields with a default as required too."""

    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)


class StoredJson:
    """A JSON value in its stored form. It is sent without parsing, which can take twenty times the memory."""

    __slots__ = ("raw",)

    def __init__(self, raw: str | bytes) -> None:
        """Wrap the text or bytes that Postgres returns."""
        self.raw = raw.encode() if isinstance(raw, str) else raw

    def __eq__(self, other: object) -> bool:
        """Compare the text."""
        return isinstance(other, StoredJson) and self.raw == other.raw

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def to_json(view: BaseModel) -> bytes:
    """Return a view as JSON; its values may be `StoredJson`."""
    return orjson.dumps(view.model_dump(), default=_as_stored, option=orjson.OPT_UTC_Z)


def _as_stored(value: Any) -> orjson.Fragment:
    if isinstance(value, StoredJson):
        return orjson.Fragment(value.raw)
    raise TypeError(f"{type(value).__name__} is no JSON")
