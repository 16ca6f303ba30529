"""The shapes of the answers of lookups, known in advance for the validation of workflows."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel

from language.shapes import ANYTHING, Shape


def shape_of(annotation: Any) -> Shape:
    """Return the shape of a value of this type; a model that forbids other fields is an object."""
    if get_origin(annotation) in (UnionType, Union):
        arms = [arm for arm in get_args(annotation) if arm is not NoneType]
        shape = shape_of(arms[0]) if len(arms) == 1 else ANYTHING
        return shape._replace(nullable=shape.nullable or len(arms) < len(get_args(annotation)))
    if get_origin(annotation) is list:
        return Shape(False, items=shape_of(get_args(annotation)[0]))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if annotation.model_config.get("extra") != "forbid":
            return Shape(False)
        fields = {name: shape_of(field.annotation) for name, field in annotation.model_fields.items()}
        return Shape(False, fields)
    return Shape(annotation is Any)
