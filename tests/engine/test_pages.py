"""The items of a large array get their values by pages, and one that hangs keeps no others waiting."""

from __future__ import annotations

from engine.run_room import ProcessRoom, RunRoom
from engine.window import Window
from language.records import INLINE_BYTES

QUARTER = ["x" * (INLINE_BYTES // 4 - 100)]


def begin_all(window: Window) -> list[int]:
    """Begin items as long as they have values; return them."""
    return [one.item for one in window.begin_items(100) if one.value is not None]


def test_a_page_is_followed_by_the_next_beside_an_item_that_hangs() -> None:
    values = QUARTER * 10
    window = Window(values, 50, {}, {}, RunRoom())
    assert begin_all(window) == [0, 1, 2, 3]
    assert not window.needs_page
    window.settle(1, None, 0)
    window.settle(2, None, 0)
    assert window.needs_page
    window.load(values)
    assert begin_all(window) == [4, 5]
    for item in (3, 4, 5):
        window.settle(item, None, 0)
    window.load(values)
    assert begin_all(window) == [6, 7, 8]


def test_an_item_that_has_no_place_beside_another_waits_for_it() -> None:
    values = [*QUARTER, ["x" * (INLINE_BYTES - 1000)], *QUARTER]
    window = Window(values, 50, {}, {}, RunRoom())
    assert begin_all(window) == [0]
    assert window.needs_page
    window.load(values)
    assert (begin_all(window), window.needs_page) == ([], False)
    window.settle(0, None, 0)
    assert window.needs_page
    window.load(values)
    assert begin_all(window) == [1]


def test_items_without_room_for_their_values_begin_without_them() -> None:
    window = Window(QUARTER * 3, 2, {}, {}, RunRoom(ProcessRoom(values=0)))
    assert [(one.item, one.value, one.lacks_value) for one in window.begin_items(100)] == [
        (0, None, True),
        (1, None, True),
    ]
