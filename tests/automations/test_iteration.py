"""How the window of a step with `for_each` slides over its items."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from workflows.iteration import Iteration
from workflows.messages import ItemProgress, StepResult

LATER = datetime(2026, 1, 1, tzinfo=UTC)


def taken(iteration: Iteration) -> list[int]:
    return [call.item for call in iteration.take()]


def done(iteration: Iteration, item: int) -> None:
    assert iteration.takes(StepResult(run_id=UUID(int=1), item=item, attempt=1, status="completed"))
    iteration.settle(item, None, 4, stored=False)


def paused(iteration: Iteration, item: int) -> None:
    assert iteration.takes(StepResult(run_id=UUID(int=1), item=item, attempt=1, status="failed"))
    iteration.pause(item, LATER)


def test_half_of_the_window_is_begun_at_a_time() -> None:
    iteration = Iteration([*range(10)], width=4)
    assert (taken(iteration), taken(iteration), taken(iteration)) == ([0, 1], [2, 3], [])
    done(iteration, 0)
    assert taken(iteration) == []
    done(iteration, 1)
    assert taken(iteration) == [4, 5]


def test_items_that_wait_for_another_attempt_leave_the_rest_of_the_window_to_others() -> None:
    iteration = Iteration([*range(10)], width=3)
    assert taken(iteration) == [0, 1]
    paused(iteration, 0)
    paused(iteration, 1)
    assert taken(iteration) == [2]
    paused(iteration, 2)
    assert taken(iteration) == []
    assert iteration.rests


def test_an_array_that_has_become_shorter_is_done_with_what_is_left_of_it() -> None:
    tried = {4: ItemProgress(attempts=1, resume_at=LATER)}
    assert Iteration([1], width=4, done=[0, 1, 2], tried=tried).finished
