"""Conditions on changes, in requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from api.http.validation import Body
from models.monitors.conditions import OPERATORS

MAX_CONDITIONS = 50

_Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
_Text = Annotated[str, StringConstraints(min_length=1, max_length=500)]
_Date = Annotated[str, StringConstraints(min_length=10, max_length=40)]
_ABSENT: Any = None


class ChangeCondition(Body):
    """A field, and one condition on its change."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"field": "threat.abuse_score", "above": 50}]})

    field: Annotated[str, StringConstraints(min_length=1, max_length=100)] = Field(
        description="Dotted (`whois.registrar`), or a member of the objects in a list (`results.title`)."
    )
    above: _Number | _Date = Field(default=_ABSENT, description="It is now above this number or date.")
    below: _Number | _Date = Field(default=_ABSENT, description="It is now below this number or date.")
    crosses: _Number | _Date = Field(
        default=_ABSENT, description="It was below this number or date and is not any more, or the other way."
    )
    changes_by: Annotated[_Number, Field(gt=0)] = Field(
        default=_ABSENT,
        description="It has moved by so much or more since it was last told: an amount for numbers, days for"
        " dates, words for texts; of lists so many items have come, gone or changed.",
    )
    contains: _Text = Field(
        default=_ABSENT, description="It has this text in it, in any case; of lists an item that has come."
    )
    matches: _Text = Field(
        default=_ABSENT,
        description="It is like this glob (`*`, `?`, `[ab]`), in any case; of lists an item that has come.",
    )
    becomes: Any = Field(default=_ABSENT, description="It now is this: any value, also null.")

    @model_validator(mode="after")
    def _has_one_operator(self) -> Self:
        given = [name for name in OPERATORS if name in self.model_fields_set]
        if len(given) != 1:
            message = f"Give a field, and one of {', '.join(OPERATORS)}."
            if given:
                message = f"A condition has one of {', '.join(OPERATORS)}; here are {' and '.join(given)}."
                message += " Keep one. A further condition can have the other, and then either is enough."
            raise PydanticCustomError("one_operator", "{text}", {"text": message})
        if self.model_fields_set != {"field", "becomes"} and getattr(self, given[0]) is None:
            raise PydanticCustomError("wrong_type", "{text}", {"text": "Only `becomes` can be null."})
        return self

    def to_stored(self) -> dict[str, Any]:
        """Return the condition in its stored form."""
        given = self.model_dump(exclude_unset=True)
        return {name: _whole(value) for name, value in given.items()}


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Conditions = Annotated[list[ChangeCondition], Field(max_length=MAX_CONDITIONS)]

WHEN = "Conditions on changes: a change is told if it meets one of them. None: every change is told."


def stored_conditions(given: Sequence[ChangeCondition]) -> list[dict[str, Any]]:
    """Return conditions as they are stored."""
    return [one.to_stored() for one in given]
