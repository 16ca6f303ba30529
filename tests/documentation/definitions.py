"""Definitions that pages show: workflows, steps and triggers, in JSON and in YAML."""

from __future__ import annotations

from typing import Any, get_args

import jsonschema_rs

from language.triggers import Trigger
from models.automations.definitions import json_schema, validate
from providers.registry import lookup_fields

_SCHEMA = jsonschema_rs.validator_for(json_schema())
# That a secret was not looked for is no fault of an example.
_FINE = {"unchecked_secret"}
_SAY_WHICH = (
    "is neither a workflow nor a step nor a trigger. Say what it is behind the fence: ```json answer (what"
    " the block above it wrote), ```json POST /api/lists (a body that is sent, and has to be accepted), or"
    " ```json Problem (an instance of this schema of /openapi.json)"
)


def _types(union: Any) -> set[str]:
    """The values of `type` in a union of models."""
    models: tuple[Any, ...] = get_args(get_args(union)[0])
    return {name for model in models for name in get_args(model.model_fields["type"].annotation)}


TRIGGERS = _types(Trigger)


def whole(example: Any) -> dict[str, Any]:
    """A workflow around an example.

    Raises:
        ValueError: it is none of a workflow, a step, a list of steps, or a trigger.
    """
    match example:
        case {"name": str(), "steps": _} | {"name": str(), "trigger": _}:
            return example
        case {"id": str(), "type": str()}:
            return {"name": "example", "steps": [example]}
        case [{"id": str(), "type": str()}, *_]:
            return {"name": "example", "steps": example}
        case {"type": str(name)} if name in TRIGGERS:
            return {"name": "example", "trigger": example, "status": "draft"}
        case _:
            raise ValueError(_SAY_WHICH)


def faults(example: Any) -> list[str]:
    """Return what is wrong with an example, and what is warned of."""
    document = whole(example)
    found = validate(document, None, lookup_fields=lookup_fields())
    said = [f"{error.pointer}: {error.code}: {error.message}" for error in found.errors]
    said += [f"{one.pointer}: {one.code}: {one.message}" for one in found.warnings if one.code not in _FINE]
    return said or [error.message for error in _SCHEMA.iter_errors(document)]
