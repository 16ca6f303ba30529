"""How far a step is over the items of its array. Pure and free of Temporal, like the rules of the rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from language.records import INLINE_BYTES, StepError
from workflows.messages import ItemCall, ItemProgress, StepResult

MAX_OUTPUT_BYTES = 32 * 1024 * 1024
"""How much the items of a step may give together."""


class Iteration:
    """One step of one run over its items: a window slides along, half of it at a time.

    Attributes:
        evaluated_there: the array does not travel: the activity evaluates `for_each` itself.
        pausing: the items that have failed and wait for another attempt, with when that is.
        stored: the output is too large to travel, or in the database only.
        size: of the output, in bytes of JSON.
        error: of the item that has failed the step, if one has; no other is begun then.
    """

    def __init__(
        self,
        items: list[Any] | int,
        width: int,
        done: Collection[int] = (),
        tried: Mapping[int, ItemProgress] | None = None,
    ) -> None:
        """Begin, or go on.

        Args:
            items: the array, or only its length.
            width: how many items may be at work at a time.
            done: the items that are done; their outputs are in the database.
            tried: the items that wait for another attempt.
        """
        self._total = items if isinstance(items, int) else len(items)
        # An earlier history may have seen a longer array, where a step reads what it does not wait for.
        done = {item for item in done if item < self._total}
        tried = {
            item: one
            for item, one in sorted((tried or {}).items())
            if item not in done and item < self._total
        }
        self.evaluated_there = isinstance(items, int)
        self.pausing: dict[int, datetime] = {item: one.resume_at for item, one in tried.items()}
        self.stored = bool(done)
        self.size = 2
        self.error: StepError | None = None
        self._values = items if isinstance(items, list) else None
        self._width = width
        self._left = self._total - len(done)
        known = {*done, *tried}
        self._waiting = deque(item for item in range(self._total) if item not in known)
        self._attempts = {item: one.attempts for item, one in tried.items()}
        self._at_work: set[int] = set()
        self._resumed: dict[int, datetime] = {}
        self._outputs: dict[int, Any] = {}

    @property
    def finished(self) -> bool:
        """Whether every item is done; or one has failed, and no other is under way."""
        return self._left == 0 or (self.error is not None and not self._at_work)

    @property
    def rests(self) -> bool:
        """Whether no item is under way."""
        return not self._at_work

    @property
    def output(self) -> list[Any] | None:
        """The outputs in order; None if they are not all here."""
        return None if self.stored else [self._outputs[item] for item in range(self._total)]

    def take(self) -> list[ItemCall]:
        """The items to begin now: none while more than half of the window is busy and others will end."""
        busy = len(self._at_work) + len(self.pausing)
        if self._at_work and busy > self._width // 2:
            return []
        share = self._width if self._total <= self._width else (self._width + 1) // 2
        count = min(share, self._width - busy, len(self._waiting))
        return [self._call(self._waiting.popleft()) for _ in range(count)]

    def fail(self, error: StepError) -> None:
        """Begin no other item, since one has failed; the first error stands."""
        self.error = self.error or error
        self.stop()

    def stop(self) -> None:
        """Begin no other item."""
        self.pausing.clear()
        self._waiting.clear()

    def _call(self, item: int) -> ItemCall:
        self._at_work.add(item)
        self._resumed.pop(item, None)
        self._attempts[item] = self._attempts.get(item, 0) + 1
        value = self._values[item] if self._values is not None else None
        return ItemCall(item=item, attempt=self._attempts[item], value=value)

    def takes(self, result: StepResult) -> bool:
        """Whether a result is the first of an attempt that is under way; it counts as taken then."""
        item = result.item
        if item not in self._at_work or result.attempt != self._attempts[item]:
            return False
        self._at_work.remove(item)
        return True

    def pause(self, item: int, until: datetime) -> None:
        """Let an item that has failed wait for its next attempt."""
        if self.error is None:
            self.pausing[item] = until

    def resume(self, item: int) -> None:
        """End the pause of an item: it is next."""
        until = self.pausing.pop(item, None)
        if until is not None:
            self._resumed[item] = until
            self._waiting.appendleft(item)

    def settle(self, item: int, output: Any, size: int, *, stored: bool) -> None:
        """Note that an item is done: its output, or what stands for its error."""
        self._left -= 1
        self.size += size + 1
        self.stored = self.stored or stored or self.size > INLINE_BYTES
        if self.size > MAX_OUTPUT_BYTES:
            message = f"The outputs of the items have more than {MAX_OUTPUT_BYTES // 1024**2} MiB together."
            self.fail(StepError(code="output_too_large", message=message))
        if self.stored:
            self._outputs.clear()
        else:
            self._outputs[item] = output

    def progress(self) -> dict[int, ItemProgress]:
        """The items that are to be tried again, for a later batch to go on with."""
        return {
            item: ItemProgress(attempts=self._attempts[item], resume_at=until)
            for item, until in {**self.pausing, **self._resumed}.items()
        }
