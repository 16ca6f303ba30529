"""The error codes in OpenAPI: a schema for each place of codes, which lists and explains them."""

from __future__ import annotations

from typing import Any

from api.http.catalogue import CATALOGUE, Place

_REFERENCE = "#/components/schemas/"
_PLACES: dict[Place, tuple[str, str]] = {
    "answers": ("AnswerCode", "The `code` of an answer that is no success."),
    "fields": ("FieldCode", "The `code` of something wrong with the input."),
    "warnings": ("WarningCode", "The `code` of a warning about what is saved or started all the same."),
    "runs": ("RunCode", "The `code` of the error of a run, of a step or a target of one, or of a delivery."),
}
_PROPERTIES = {
    "Problem": "AnswerCode",
    "FieldProblem": "FieldCode",
    "FoundView": "FieldCode",
    "WarningView": "WarningCode",
    "AttemptError": "RunCode",
    "ResultError": "RunCode",
}


def list_codes(schemas: dict[str, Any]) -> None:
    """Add the schemas of codes, and refer to them from the properties that hold a code.

    They are strings with `x-extensible-enum`, not enums, because clients must accept codes of later versions.
    """
    for place, (name, description) in _PLACES.items():
        entries = [entry for entry in CATALOGUE.values() if entry.place == place]
        listed = [
            f"- `{entry.code}`{f' ({entry.status})' if entry.status else ''}: {entry.cause}"
            for entry in entries
        ]
        schemas[name] = {
            "title": name,
            "type": "string",
            "description": "\n".join([description, "There may be others in later versions.", "", *listed]),
            "x-extensible-enum": [entry.code for entry in entries],
        }
    for name, code in _PROPERTIES.items():
        if name not in schemas:
            continue
        described = schemas[name]["properties"]["code"]
        schemas[name]["properties"]["code"] = {
            "description": described["description"],
            "$ref": _REFERENCE + code,
        }
