"""The places of a worker for runs that have workflows of their own."""

from __future__ import annotations

from typing import Any, cast

import pytest

from execution.hand_over import OwnPlaces
from models.identifiers import new_id
from models.runs.run_work import ClaimedRun
from tests.engine.world import START


def places_of(workers: int) -> OwnPlaces:
    nothing = cast(Any, None)
    places = OwnPlaces(nothing, nothing, "auto")
    places.workers = workers
    return places


def a_run() -> ClaimedRun:
    return ClaimedRun(new_id(), new_id(), START, None, None, 0, False, None)


@pytest.mark.parametrize(
    ("workers", "room", "for_newcomers"),
    [(1, 8, 64), (2, 4, 32), (3, 2, 21), (8, 1, 8), (20, 1, 3), (100, 1, 1)],
)
def test_workers_share_the_places_of_the_installation_and_each_has_one(
    workers: int, room: int, for_newcomers: int
) -> None:
    places = places_of(workers)
    assert (places.room, places.newcomers_room) == (room, for_newcomers)


def test_accounts_that_hold_none_get_places_beyond_the_first_up_to_a_bound() -> None:
    places = places_of(1)
    places.reserve(new_id(), [a_run() for _ in range(8)])
    assert (places.room, places.newcomers_room) == (0, 56)
    for _ in range(56):
        places.reserve(new_id(), [a_run()])
    assert (places.room, places.newcomers_room) == (0, 0)
