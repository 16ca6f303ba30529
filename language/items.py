"""What the items of a step that fail mean for the step."""

from __future__ import annotations

from language.definition import IteratingStep, OnItems, Step
from language.records import ItemTally, StepError

OUT_OF_CREDITS = "insufficient_credits"
"""An item with this error fails its step: those that follow would fail alike."""


def item_fails_step(step: Step, error: StepError) -> bool:
    """Whether an item with this error fails its step at once."""
    return step.on_error != "continue" or error.code == OUT_OF_CREDITS


def failure_fails_run(step: Step) -> bool:
    """Whether a failure of the step fails the run. With `for_each`, `continue` is said of the items alone."""
    iterates = isinstance(step, IteratingStep) and step.for_each is not None
    return step.on_error == "fail" or (step.on_error == "continue" and iterates)


def error_of(step: Step, items: ItemTally) -> StepError | None:
    """Judge a step by its items, all of them done.

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
