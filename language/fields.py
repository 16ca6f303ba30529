"""What a bare name as the `field` of a lookup step means: a step's output, else a field of the trigger."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from language.definition import RESERVED_IDS, LookupStep, Step

_BARE = re.compile(r"[A-Za-z0-9_-]{1,100}")


def trigger_field(step: Step, step_ids: Collection[str]) -> str | None:
    """Give the field of the trigger that a step looks up by its bare name; None if it means something else.

    Args:
        step: which.
        step_ids: of all steps. A step cannot read itself, so its own id is none that it can mean.
    """
    if not isinstance(step, LookupStep) or step.config.field is None:
        return None
    name = step.config.field
    is_root = name in RESERVED_IDS or (name in step_ids and name != step.id)
    return name if _BARE.fullmatch(name) and not is_root else None


def resolve_fields(steps: Sequence[Step]) -> list[Step]:
    """Give the steps with each such name written out."""
    ids = {step.id for step in steps}
    return list(_resolved(steps, ids))


def _resolved(steps: Iterable[Step], ids: Collection[str]) -> Iterable[Step]:
    for step in steps:
        if isinstance(step, LookupStep) and (name := trigger_field(step, ids)) is not None:
            config = step.config.model_copy(update={"field": f'trigger."{name}"'})
            yield step.model_copy(update={"config": config})
        else:
            yield step
