"""The window over the items of a step's array: a limited number at a time, each with its own retries."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from engine.run_room import RunRoom, size_of
from language.progress import ItemWait
from language.records import INLINE_BYTES, ItemTally, StepError
from language.step_evaluation import items_shown

MAX_OUTPUT_BYTES = 32 * 1024 * 1024
"""The highest size of the outputs of a step's items together."""


class BegunItem(NamedTuple):
    """An item that begins; its value is None if it `lacks_value`, for which there is no room in memory."""

    item: int
    attempt: int
    value: Any
    lacks_value: bool


class Window:
    """The items of one step of one run: at most `width` of them are under way or pausing.

    Attributes:
        pausing: the failed items that wait for another attempt, with its time.
        stored: whether the output is only in the database.
        size: of the output, in bytes of JSON.
        error: of the item that has failed the step, if any; then no other item is begun.
        shown: the values, in the form for the step's input.
    """

    def __init__(
        self,
        values: list[Any],
        width: int,
        done: Mapping[int, StepError | None],
        waits: Mapping[int, ItemWait],
        room: RunRoom,
    ) -> None:
        """Create the window, for new or recorded items.

        Args:
            values: the array.
            width: the highest number of items under way at a time.
            done: the finished items, each with its error if it failed; their outputs are in the
                database.
            waits: the items that wait for another attempt.
            room: the room for values and outputs.
        """
        # The array may have been longer before, if a step reads values of steps that it does not wait for.
        done = {item: error for item, error in done.items() if item < len(values)}
        waits = {item: waits[item] for item in sorted(waits) if item not in done and item < len(values)}
        self.pausing = {item: wait.until for item, wait in waits.items()}
        self.stored = bool(done)
        self.size = 2
        self.error: StepError | None = None
        self.shown = items_shown(values)
        self._total = len(values)
        self._width = width
        self._left = len(values) - len(done)
        self._attempts = {item: wait.attempts for item, wait in waits.items()}
        # When the failed items are, or were, due to be retried.
        self._due = {**self.pausing}
        self._next = deque(item for item in range(len(values)) if item not in done and item not in waits)
        self._at_work: set[int] = set()
        self._outputs: dict[int, Any] = {}
        self._room, self._kept = room, 0
        # The values of a page of items: those under way, and the next ones.
        self._page: dict[int, Any] = {}
        self._page_size = 0
        self._has_room = True
        # Whether the next value has no place beside those under way.
        self._is_full = False
        self.load(values)
        self._failed = {item: error for item, error in done.items() if error is not None}

    @property
    def finished(self) -> bool:
        """Return whether every item is done; or one has failed the step, and no other is under way."""
        return self._left == 0 or (self.error is not None and not self._at_work)

    @property
    def calling(self) -> bool:
        """Return whether an item is under way."""
        return bool(self._at_work)

    @property
    def tally(self) -> ItemTally:
        """The results of the items so far."""
        first = min(self._failed, default=None)
        return ItemTally(
            self._total, len(self._failed), None if first is None else (first, self._failed[first])
        )

    @property
    def output(self) -> list[Any] | None:
        """The outputs in order; None if they are not all in memory."""
        return None if self.stored else [self._outputs[item] for item in range(self._total)]

    @property
    def _places(self) -> int:
        return min(self._width - len(self._at_work) - len(self.pausing), len(self._next))

    @property
    def needs_page(self) -> bool:
        """Return whether the next items can only begin after `load`.

        While the items under way fill more than half of a page, it would bring few others.
        """
        if not self._has_room or self._places <= 0 or self._next[0] in self._page:
            return False
        if not self._at_work:
            return True
        return not self._is_full and 2 * sum(map(size_of, self._values_at_work)) <= self._room.largest

    @property
    def _values_at_work(self) -> list[Any]:
        return [self._page[item] for item in self._at_work if item in self._page]

    def load(self, values: list[Any]) -> None:
        """Keep the values of the next items, as many as fit; `values` are those of all items.

        If there is no room for them, each item begins without its value.
        """
        self._drop_page()
        size, page = 2, dict[int, Any]()
        for item in (*self._at_work, *self._next, *self.pausing):
            size += size_of(values[item]) + 1
            if size > self._room.largest:
                break
            page[item] = values[item]
            self._page_size = size
        self._is_full = bool(self._next) and self._next[0] not in page
        has_values = bool(page) and not (self._is_full and not self._at_work)
        self._has_room = has_values and self._room.keep(self._page_size)
        if self._has_room:
            self._page = page
        else:
            self._page_size = 0

    def _drop_page(self) -> None:
        self._room.drop(self._page_size)
        self._page_size = 0
        self._page.clear()

    def begin_items(self, most: int) -> list[BegunItem]:
        """Begin at most this many items: those that have a place, and a value if there is room for it."""
        begun: list[BegunItem] = []
        for _ in range(min(self._places, most)):
            item = self._next[0]
            if self._has_room and item not in self._page:
                break
            self._next.popleft()
            self._at_work.add(item)
            self._attempts[item] = self._attempts.get(item, 0) + 1
            value, lacks_value = self._page.get(item), not self._has_room
            begun.append(BegunItem(item, self._attempts[item], value, lacks_value))
        return begun

    def take_back(self, item: int) -> None:
        """Undo the begin of an item."""
        self._at_work.discard(item)
        self._next.appendleft(item)

    def pause(self, item: int, until: datetime) -> None:
        """Let a failed item wait for its next attempt, unless the step has failed."""
        self._at_work.discard(item)
        if self.error is None:
            self.pausing[item] = self._due[item] = until

    def wake(self, now: datetime) -> None:
        """End the pauses that are over: those items are next."""
        due = [item for item, until in self.pausing.items() if until <= now]
        for item in due:
            del self.pausing[item]
        self._next.extendleft(reversed(due))

    def recheck_answers(self) -> None:
        """End all pauses, because an answer for one of these items may have come."""
        self._next.extendleft(reversed(self.pausing))
        self.pausing.clear()

    def settle(self, item: int, output: Any, size: int, error: StepError | None = None) -> None:
        """Settle an item: its output, or the replacement for its error, and its size in bytes of JSON."""
        self._at_work.discard(item)
        self._due.pop(item, None)
        if error is not None:
            self._failed[item] = error
        self._left -= 1
        self.size += size + 1
        self.stored = self.stored or self.size > INLINE_BYTES or not self._room.keep(size)
        if self.stored:
            self._drop_outputs()
        else:
            self._kept += size
            self._outputs[item] = output
        if self.size > MAX_OUTPUT_BYTES:
            message = f"The outputs of the items have more than {MAX_OUTPUT_BYTES // 1024**2} MiB together."
            self.fail(StepError(code="output_too_large", message=message))

    def fail(self, error: StepError) -> None:
        """Fail the step, and begin no other item; the first error counts."""
        self.error = self.error or error
        self.stop()

    def fail_item(self, item: int, error: StepError) -> None:
        """Settle an item as failed, and fail the step."""
        self._at_work.discard(item)
        self._failed[item] = error
        self.fail(error.model_copy(update={"message": f"Item {item}: {error.message}"}))

    def release(self) -> None:
        """Drop values and outputs from memory."""
        self._drop_page()
        self._drop_outputs()

    def _drop_outputs(self) -> None:
        self._room.drop(self._kept)
        self._kept = 0
        self._outputs.clear()

    def stop(self) -> None:
        """Begin no other item."""
        self.pausing.clear()
        self._due.clear()
        self._next.clear()

    def waits(self) -> dict[int, ItemWait]:
        """Return the failed items, with their attempts, and when the next one is, or was, due."""
        return {
            item: ItemWait(attempts=self._attempts[item] - (item in self._at_work), until=until)
            for item, until in self._due.items()
        }
