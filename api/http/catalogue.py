"""The catalogue of error codes, from errors.toml: where each stands, why it comes, and what to do."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Place = Literal["answers", "fields", "warnings", "runs"]


class Entry(BaseModel):
    """One code; errors.toml says what the fields are."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    code: str
    place: Place
    cause: str
    remedy: str
    example: str
    status: int | None = None
    pointer: str = ""
    parameter: str | None = None
    row: int | None = None
    details: dict[str, Any] = Field(default_factory=dict[str, Any])


def _read() -> dict[str, Entry]:
    places = tomllib.loads(files("api.http").joinpath("errors.toml").read_text("utf-8"))
    return {
        code: Entry.model_validate({**fields, "code": code, "place": place})
        for place, codes in places.items()
        for code, fields in codes.items()
    }


CATALOGUE = _read()


def type_of(address: str, code: str) -> str:
    """The `type` of a problem: the URL of its page.

    Args:
        address: the public address of the service, without a trailing slash.
        code: in the catalogue.
    """
    return f"{address}/errors/{code}"


def problem_body(
    address: str,
    code: str,
    status: int,
    message: str,
    *,
    instance: str,
    request_id: str,
    details: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The members of a problem document."""
    return {
        "type": type_of(address, code),
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": message,
        "instance": instance,
        "code": code,
        "message": message,
        "request_id": request_id,
        **(details or {}),
    }


def example_of(entry: Entry, address: str) -> dict[str, Any]:
    """The JSON in which a client meets the code."""
    found: dict[str, Any] = {"pointer": entry.pointer, "code": entry.code, "message": entry.example}
    if entry.place == "warnings":
        return {"warnings": [found]}
    if entry.place == "runs":
        return {"error": {"code": entry.code, "message": entry.example}}
    code, status, message, details = entry.code, entry.status, entry.example, dict(entry.details)
    if status is None:
        where = {"parameter": entry.parameter, "row": entry.row}
        found |= {name: value for name, value in where.items() if value is not None}
        code, status, details = "invalid_input", 400, {"errors": [found]}
        message = f"{entry.parameter or entry.pointer or '/'}: {message}"
    return problem_body(
        address,
        code,
        status,
        message,
        instance="/api/…",
        request_id="4f0c9d2ab31e5d7f6a80c1e2",
        details=details,
    )
