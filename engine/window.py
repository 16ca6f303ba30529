"""How far a step is over the items of its array: so many at a time, each with retries of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from language.progress import ItemWait
from language.records import INLINE_BYTES, ItemTally, StepError
from language.step_evaluation import items_shown

MAX_OUTPUT_BYTES = 32 * 1024 * 1024
"""How much the items of a step may give together."""


class Window:
    """The items of one step of one run: `width` of them are at work or pause at a time.

    Attributes:
        pausing: the items that have failed and wait for another attempt, with when that is.
        stored: the output is in the database only.
        size: of the output, in bytes of JSON.
        error: of the item that has failed the step, if one has; no other is begun then.
        shown: the values, as the input of the step shows them.
    """

    def __init__(
        self,
        values: list[Any],
        width: int,
        done: Mapping[int, StepError | None],
        waits: Mapping[int, ItemWait],
    ) -> None:
        """Begin, or go on.

        Args:
            values: the array.
            width: how many items may be at work at a time.
            done: the items that are done, each with its error if it failed; their outputs are in the
                database.
            waits: the items that wait for another attempt.
        """
        # The array may have been longer before, where a step reads what it does not wait for.
        done = {item: error for item, error in done.items() if item < len(values)}
        waits = {item: waits[item] for item in sorted(waits) if item not in done and item < len(values)}
        self.pausing = {item: wait.until for item, wait in waits.items()}
        self.stored = bool(done)
        self.size = 2
        self.error: StepError | None = None
        self.shown = items_shown(values)
        self._values = values
        self._width = width
        self._left = len(values) - len(done)
        self._attempts = {item: wait.attempts for item, wait in waits.items()}
        # When those that have failed are, or were, to be tried again.
        self._due = {**self.pausing}
        self._next = deque(item for item in range(len(values)) if item not in done and item not in waits)
        self._at_work: set[int] = set()
        self._outputs: dict[int, Any] = {}
        self._failed = {item: error for item, error in done.items() if error is not None}

    @property
    def finished(self) -> bool:
        """Whether every item is done; or one has failed the step, and no other is at work."""
        return self._left == 0 or (self.error is not None and not self._at_work)

    @property
    def calling(self) -> bool:
        """Whether an item is at work."""
        return bool(self._at_work)

    @property
    def tally(self) -> ItemTally:
        """How the items have ended so far."""
        first = min(self._failed, default=None)
        return ItemTally(
            len(self._values), len(self._failed), None if first is None else (first, self._failed[first])
        )

    @property
    def output(self) -> list[Any] | None:
        """The outputs in order; None if they are not all here."""
        return None if self.stored else [self._outputs[item] for item in range(len(self._values))]

    def begin_items(self) -> list[tuple[int, int, Any]]:
        """Begin as many items as there is room for: each with its attempt and its value."""
        room = self._width - len(self._at_work) - len(self.pausing)
        begun: list[tuple[int, int, Any]] = []
        for _ in range(min(room, len(self._next))):
            item = self._next.popleft()
            self._at_work.add(item)
            self._attempts[item] = self._attempts.get(item, 0) + 1
            begun.append((item, self._attempts[item], self._values[item]))
        return begun

    def take_back(self, item: int) -> None:
        """Note that an item was not begun after all."""
        self._at_work.discard(item)
        self._next.appendleft(item)

    def pause(self, item: int, until: datetime) -> None:
        """Let an item that has failed wait for its next attempt, unless there is to be none any more."""
        self._at_work.discard(item)
        if self.error is None:
            self.pausing[item] = self._due[item] = until

    def wake(self, now: datetime) -> None:
        """End the pauses that are over: those items are next."""
        due = [item for item, until in self.pausing.items() if until <= now]
        for item in due:
            del self.pausing[item]
        self._next.extendleft(reversed(due))

    def look_again(self) -> None:
        """End all pauses: something has happened to one of these items, or may have."""
        self._next.extendleft(reversed(self.pausing))
        self.pausing.clear()

    def settle(self, item: int, output: Any, size: int, error: StepError | None = None) -> None:
        """Note that an item is done: its output, or what stands for its error, and its bytes of JSON."""
        self._at_work.discard(item)
        self._due.pop(item, None)
        if error is not None:
            self._failed[item] = error
        self._left -= 1
        self.size += size + 1
        self.stored = self.stored or self.size > INLINE_BYTES
        if self.stored:
            self._outputs.clear()
        else:
            self._outputs[item] = output
        if self.size > MAX_OUTPUT_BYTES:
            message = f"The outputs of the items have more than {MAX_OUTPUT_BYTES // 1024**2} MiB together."
            self.fail(StepError(code="output_too_large", message=message))

    def fail(self, error: StepError) -> None:
        """Begin no other item, since the step fails; the first error stands."""
        self.error = self.error or error
        self.stop()

    def fail_item(self, item: int, error: StepError) -> None:
        """Note that an item has failed, and the step with it."""
        self._at_work.discard(item)
        self._failed[item] = error
        self.fail(error.model_copy(update={"message": f"Item {item}: {error.message}"}))

    def stop(self) -> None:
        """Begin no other item."""
        self.pausing.clear()
        self._due.clear()
        self._next.clear()

    def waits(self) -> dict[int, ItemWait]:
        """The items that have failed, after how many attempts, and when the next is, or was, due."""
        return {
            item: ItemWait(attempts=self._attempts[item] - (item in self._at_work), until=until)
            for item, until in self._due.items()
        }
