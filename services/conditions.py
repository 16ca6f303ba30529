"""Conditions on changes, where they depend on the kinds of lookups: the fields and their types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from language.findings import suggestion
from models.errors import FieldError
from models.lists.lists import TargetType
from models.monitors.conditions import Condition, is_about, read_conditions
from models.monitors.fields import Known, Watch, known_fields, watch
from models.monitors.tolerances import is_number, moment_of
from providers.registry import KINDS

_SIDES = ("above", "below", "crosses")
_TEXTUAL = ("contains", "matches")


def check_conditions(
    type: TargetType,
    when: Sequence[Mapping[str, Any]],
    tracked: Sequence[str] = (),
    ignored: Sequence[str] = (),
) -> list[FieldError]:
    """Return all errors of conditions, each with its place below `/when`.

    Args:
        type: the type of the targets.
        when: the conditions.
        tracked: the fields that the monitor tracks; empty for all.
        ignored: the fields that it ignores.
    """
    known = known_fields(KINDS[type].answer)
    watched = watch(type, known, tracked, ignored)
    return [
        error
        for number, condition in enumerate(read_conditions(when))
        for error in _errors(f"/when/{number}", type, condition, known, watched)
    ]


def _errors(
    at: str, type: TargetType, condition: Condition, known: Known, watched: Watch
) -> Iterator[FieldError]:
    names = [*known, *(f"{field}.{member}" for field, members in known.items() for member in members)]
    if condition.field not in names:
        hint = suggestion(condition.field, names) or " Name a whole field, as in `whois.registrar`."
        message = f"An answer of type {type} has no such field.{hint}"
        yield FieldError(f"{at}/field", "unknown_field", message)
        return
    path = next(field for field in known if is_about(condition.field, field))
    member = condition.field[len(path) + 1 :]
    if path not in watched or (member and member not in watched[path].members):
        message = "The monitor does not track this field: nothing of it is ever told."
        yield FieldError(f"{at}/field", "not_tracked", message)
        return
    wrong = _misfit(condition, annotation_of(KINDS[type].answer, condition.field))
    if wrong is not None:
        yield FieldError(f"{at}/{condition.operator}", "wrong_operator", wrong)


def _misfit(condition: Condition, annotation: Any) -> str | None:
    """Return why an operator can never be true for a field of this type, or None."""
    sorts = {*_sorts(annotation)}
    is_list = any(get_origin(sort) is list for sort in sorts)
    if condition.operator in _SIDES:
        if is_number(condition.value):
            return None if not is_list and sorts & {int, float} else "The field is no number."
        if moment_of(condition.value) is None:
            return "Give a number, or a date such as 2026-11-24."
        return None if not is_list and str in sorts else "The field is no date."
    if condition.operator == "changes_by":
        fits = is_list or sorts & {int, float, str}
        return None if fits else "The field is no number, date, text or list."
    if condition.operator in _TEXTUAL:
        return None if is_list or str in sorts else "The field is no text and no list."
    return None


def _sorts(annotation: Any) -> Iterator[Any]:
    """Yield the types that a value may have; a literal of texts counts as text."""
    arms = get_args(annotation)
    if get_origin(annotation) is Literal:
        yield from map(type, arms)
    elif get_origin(annotation) in (Union, UnionType):
        for arm in arms:
            yield from _sorts(arm)
    else:
        yield annotation


def annotation_of(model: type[BaseModel], path: str) -> Any:
    """Return the type of a dotted field of an answer, or of a member of the objects in a list."""
    *blocks, name = path.split(".")
    for block in blocks:
        model = _model_in(model.model_fields[block].annotation)
    return model.model_fields[name].annotation


def _model_in(annotation: Any) -> type[BaseModel]:
    """Return the model in `X`, `X | None` or `list[X]`."""
    return next(one for one in (annotation, *get_args(annotation)) if hasattr(one, "model_fields"))
