"""The catalogue of error codes, from errors.toml: the place, cause and remedy of each."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from models.errors import FieldError

Place = Literal["answers", "fields", "warnings", "runs"]


class Entry(BaseModel):
    """One code; errors.toml describes the fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    code: str
    place: Place
    cause: str
    remedy: str
    example: str
    read: str | None = None
    status: int | None = None
    pointer: str = ""
    parameter: str | None = None
    row: int | None = None
    details: dict[str, Any] = Field(default_factory=dict[str, Any])


def _read_catalogue() -> dict[str, Entry]:
    places = tomllib.loads(files("api.http").joinpath("errors.toml").read_text("utf-8"))
    return {
        code: Entry.model_validate({**fields, "code": code, "place": place})
        for place, codes in places.items()
        for code, fields in codes.items()
    }


CATALOGUE = _read_catalogue()

_SECTIONS: dict[Place, tuple[str, str]] = {
    "answers": (
        "Answers",
        "The `code` of an answer that is no success, with its status.",
    ),
    "fields": (
        "Fields",
        "In the `errors` of an answer with status 400, or of what validating a workflow finds.",
    ),
    "warnings": ("Warnings", "In the `warnings` of a workflow, which is saved all the same."),
    "runs": (
        "Runs",
        "In the `error` of a run, of a step, of an item or a target of one, or of an attempt at a delivery.",
    ),
}
_PAGE = """# Error codes

This page lists every error code with its cause and remedy. It is for everybody who got one.

Programs read `code`; it never changes. `GET /errors/<code>` of a running service shows one with an example,
as HTML, Markdown or JSON by `Accept`. [clients.md](clients.md) shows an answer with an error as a whole.
This page is written by `.venv/bin/python -m api.http.catalogue > docs/errors.md`.
"""


def type_of(address: str, code: str) -> str:
    """Return the `type` of a problem: the URL of its page.

    Args:
        address: the public address of the service, without a trailing slash.
        code: in the catalogue.
    """
    return f"{address}/errors/{code}"


@dataclass(frozen=True, slots=True)
class ProblemReport:
    """A problem to answer a request with.

    Attributes:
        status: the HTTP status.
        code: in the catalogue.
        message: for people.
        headers: of the answer.
        field_errors: what is wrong with the input.
        details: further members of the document.
    """

    status: int
    code: str
    message: str
    headers: Mapping[str, str] | None = None
    field_errors: Sequence[FieldError] = ()
    details: Mapping[str, Any] | None = None


def problem_body(problem: ProblemReport, address: str, *, instance: str, request_id: str) -> dict[str, Any]:
    """Return the members of a problem document."""
    return {
        "type": type_of(address, problem.code),
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.message,
        "instance": instance,
        "code": problem.code,
        "message": problem.message,
        "request_id": request_id,
        **(problem.details or {}),
    }


def example_of(entry: Entry, address: str) -> dict[str, Any]:
    """Return the JSON in which a client meets the code."""
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
    problem = ProblemReport(status, code, message, details=details)
    return problem_body(problem, address, instance="/api/…", request_id="4f0c9d2ab31e5d7f6a80c1e2")


def page() -> str:
    """Return all codes as a page of Markdown, by their place: docs/errors.md."""
    parts = [_PAGE]
    for place, (title, told) in _SECTIONS.items():
        parts.append(f"\n## {title}\n\n{told}\n\n| Code | Cause | Remedy |\n| --- | --- | --- |\n")
        for entry in (one for one in CATALOGUE.values() if one.place == place):
            code = f"`{entry.code}`{f' {entry.status}' if entry.status else ''}"
            remedy = f"{entry.remedy} {_link(entry.read)}" if entry.read else entry.remedy
            cells = [code, entry.cause.replace("|", r"\|"), remedy.replace("|", r"\|")]
            parts.append(f"| {' | '.join(cells)} |\n")
    return "".join(parts)


def _link(place: str) -> str:
    name, _, anchor = place.partition("#")
    return f"[More]({name}.md{f'#{anchor}' if anchor else ''})."


if __name__ == "__main__":
    print(page(), end="")
