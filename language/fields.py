"""The meaning of a bare name as the `field` of a lookup step: a step's output, else a trigger field."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from language.definition import RESERVED_IDS
from language.steps import LookupStep, Step

_BARE = re.compile(r"[A-Za-z0-9_-]{1,100}")


def trigger_field(step: Step, step_ids: Collection[str]) -> str | None:
    """Return the field of the trigger that a step looks up by its bare name; None for another meaning.

    Args:
        step: the step.
        step_ids: of all steps. A step cannot read itself, so its own id is not a possible meaning.
    """
    if not isinstance(step, LookupStep) or step.config.field is None:
        return None
    name = step.config.field
    is_root = name in RESERVED_IDS or (name in step_ids and name != step.id)
    return name if _BARE.fullmatch(name) and not is_root else None


def resolve_fields(steps: Sequence[Step]) -> list[Step]:
    """Return the steps with each such name written in full."""
    ids = {step.id for step in steps}
    return list(_resolve_fields(steps, ids))


def _resolve_fields(steps: Iterable[Step], ids: Collection[str]) -> Iterable[Step]:
    for step in steps:
        if isinstance(step, LookupStep) and (name := trigger_field(step, ids)) is not None:
            config = step.config.model_copy(update={"field": f'trigger."{name}"'})
            yield step.model_copy(update={"config": config})
        else:
            yield step
