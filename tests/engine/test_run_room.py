"""Runs share the room of their process, account by account, but each has a little in any case."""

from __future__ import annotations

from uuid import UUID

from engine.run_room import MOST_BYTES, MOST_CALLS, ProcessRoom, RunRoom
from language.records import INLINE_BYTES

ONE, OTHER = UUID(int=1), UUID(int=2)


def test_a_value_over_64_kib_is_never_kept() -> None:
    room = RunRoom()
    assert room.keep(INLINE_BYTES)
    assert not room.keep(INLINE_BYTES + 1)


def test_an_account_keeps_no_more_than_is_left_for_others() -> None:
    process = ProcessRoom()
    many, another, of_other = RunRoom(process, ONE), RunRoom(process, ONE), RunRoom(process, OTHER)
    while many.keep(INLINE_BYTES):
        pass
    assert process.values.used == MOST_BYTES // 2
    assert not another.keep(2000)
    assert of_other.keep(INLINE_BYTES)
    many.drop(INLINE_BYTES)
    assert another.keep(2000)


def test_a_run_keeps_1_kib_even_if_there_is_no_room() -> None:
    room = RunRoom(ProcessRoom(values=0))
    assert room.keep(1000)
    assert not room.keep(100)
    assert room.keep(24)


def test_a_run_has_one_call_under_way_even_if_there_is_no_room() -> None:
    room = RunRoom(ProcessRoom(calls=0))
    assert room.calls == 1
    room.begin_calls(1)
    assert room.calls == 0
    room.end_calls()
    assert room.calls == 1


def test_an_account_begins_no_more_calls_than_are_left_for_others() -> None:
    process = ProcessRoom()
    many, another, of_other = RunRoom(process, ONE), RunRoom(process, ONE), RunRoom(process, OTHER)
    many.begin_calls(many.calls)
    assert process.calls.used == MOST_CALLS // 2
    assert (many.calls, another.calls) == (0, 1)
    assert of_other.calls > 100


def test_a_run_whose_calls_are_executed_elsewhere_has_room_for_all() -> None:
    process = ProcessRoom(calls=0)
    room = RunRoom(process, limits_calls=False)
    room.begin_calls(MOST_CALLS)
    assert room.calls > MOST_CALLS
    assert process.calls.used == 0


def test_a_released_run_leaves_its_room_to_others() -> None:
    process = ProcessRoom()
    room = RunRoom(process, ONE)
    room.keep(3000)
    room.begin_calls(7)
    room.release()
    room.release()
    assert (process.values.used, process.calls.used) == (0, 0)
    assert process.values.left_for(ONE) == MOST_BYTES // 2
