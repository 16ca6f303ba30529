"""The effect of failing items on their step."""

from __future__ import annotations

from language.records import ItemTally, StepError
from language.steps import IteratingStep, OnItems, Step

OUT_OF_CREDITS = "insufficient_credits"
"""The code of an item that fails its step, because all following items would fail in the same way."""


def item_fails_step(step: Step, error: StepError) -> bool:
    """Return whether an item with this error fails its step at once."""
    return step.on_error != "continue" or error.code == OUT_OF_CREDITS


def failure_fails_run(step: Step) -> bool:
    """Return whether a failure of the step fails the run.

    With `for_each`, `continue` is about items alone.
    """
    iterates = isinstance(step, IteratingStep) and step.for_each is not None
    return step.on_error == "fail" or (step.on_error == "continue" and iterates)


def error_of(step: Step, items: ItemTally) -> StepError | None:
    """Judge a step by its items, all of which are done.

    Returns:
        Why it has failed; None if it completes.
    """
    if not isinstance(step, IteratingStep) or items.first is None:
        return None
    limit = (step.on_items or OnItems()).fail_if
    if limit == "never":
        return None
    if limit != "any" and items.failed / items.total < (1 if limit == "all" else limit):
        return None
    item, first = items.first
    which = f"{items.failed} of {items.total} items failed"
    message = f"{which}; the first is item {item} ({first.code}): {first.message}"
    return StepError(code="items_failed", message=message)
