"""The memory for the values of runs is limited, but a run always keeps a little."""

from __future__ import annotations

from engine.kept_values import MOST_BYTES, KeptValues, RunMemory
from language.records import INLINE_BYTES


def test_a_value_over_64_kib_is_never_kept() -> None:
    memory = RunMemory()
    assert memory.keep(INLINE_BYTES)
    assert not memory.keep(INLINE_BYTES + 1)


def test_runs_share_the_room_of_their_process() -> None:
    values = KeptValues()
    many, one = RunMemory(values), RunMemory(values)
    while many.keep(INLINE_BYTES):
        pass
    assert values.size == MOST_BYTES
    assert not one.keep(2000)
    many.drop(INLINE_BYTES)
    assert one.keep(2000)
    assert not many.keep(INLINE_BYTES)


def test_a_run_keeps_1_kib_even_if_there_is_no_room() -> None:
    values = KeptValues()
    values.size = MOST_BYTES
    memory = RunMemory(values)
    assert memory.keep(1000)
    assert not memory.keep(100)
    assert memory.keep(24)


def test_a_released_run_leaves_its_room_to_others() -> None:
    values = KeptValues()
    memory = RunMemory(values)
    memory.keep(1000)
    memory.keep(3000)
    memory.release()
    memory.release()
    assert values.size == 0
