"""What one workflow task does, and what one message carries, is bounded whatever the definition."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from language.expressions import Budget
from language.records import StepError
from tests.automations.world import NAMESPACE, START, JSONObject, World, run_id, size_of
from workflows import bounds
from workflows.calls import Call, Command, End, Leave, Timer
from workflows.interpreter import Interpreter
from workflows.messages import EVALUATE_MANY, PREPARE_MANY, Batch, BatchRow, StepResult

MEBIBYTE = 1024 * 1024
# Of an array with n items: about 2n nodes.
HEAVY = "length(map(&to_string(@), trigger.items))"


def interpreter_of(steps: list[JSONObject], triggers: list[Any], **more: Any) -> Interpreter:
    rows = [
        BatchRow(run_id=run_id({"n": n}), trigger=trigger, started_at=START, size=more.get("size", 1000))
        for n, trigger in enumerate(triggers)
    ]
    batch = Batch(
        batch_id=NAMESPACE, account_id=NAMESPACE, automation_id=NAMESPACE, version=1, priority=2,
        definition={"name": "bounded", "steps": steps}, rows=rows,
    )  # fmt: skip
    return Interpreter(batch, lambda: more.get("now", START))


def transforms(count: int, expression: str = HEAVY) -> list[JSONObject]:
    return [{"id": f"s{n}", "type": "transform", "config": {"expression": expression}} for n in range(count)]


def activities(commands: list[Command]) -> list[str]:
    return [command.activity for command in commands if isinstance(command, Call)]


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The nodes that are visited, one number for each charge."""
    visited: list[int] = []
    spend = Budget.spend

    def counted(self: Budget, nodes: int) -> None:
        spend(self, nodes)
        visited.append(nodes)

    monkeypatch.setattr(Budget, "spend", counted)
    return visited


HEAVY_STEPS: dict[str, tuple[JSONObject, str]] = {
    "a transform": ({"type": "transform", "config": {"expression": HEAVY}}, EVALUATE_MANY),
    "a condition": ({"type": "condition", "config": {"expression": f"{HEAVY} > 1"}}, EVALUATE_MANY),
    "an array of items": (
        {"type": "webhook", "config": {"url": "http://h/"}, "for_each": f"[{HEAVY}]"},
        PREPARE_MANY,
    ),
    "an until": ({"type": "delay", "config": {"until": f"{{{{ {HEAVY} }}}}"}}, PREPARE_MANY),
}


@pytest.mark.parametrize("case", HEAVY_STEPS)
def test_what_is_heavy_is_left_to_an_activity(case: str, nodes: list[int]) -> None:
    step, activity = HEAVY_STEPS[case]
    batch = interpreter_of([{"id": "heavy", **step}], [{"items": list(range(15_000))}])
    assert activities(batch.advance()) == [activity]
    assert sum(nodes) <= bounds.INLINE_NODES


def test_one_task_evaluates_so_much_at_most(nodes: list[int]) -> None:
    batch = interpreter_of(transforms(3), [{"items": list(range(5000))} for _ in range(64)])
    commands = batch.advance()
    assert sum(nodes) <= 100_000
    [breath] = [command for command in commands if isinstance(command, Timer)]
    assert breath.until - START < timedelta(seconds=1)


def test_one_history_evaluates_so_much_at_most(nodes: list[int]) -> None:
    """A replay does all of it again in one task; the rest goes to activities."""
    batch = interpreter_of(transforms(100), [{"items": list(range(5000))}])
    for _ in range(100):
        if activities(batch.advance()) == [EVALUATE_MANY]:
            break
    assert 400_000 <= sum(nodes) <= 520_000


def test_many_small_evaluations_are_spread_over_tasks() -> None:
    batch = interpreter_of(transforms(100, "trigger.n"), [{"n": n} for n in range(64)])
    assert any(isinstance(command, Timer) for command in batch.advance())


STEPS_WITH_MUCH_DATA: dict[str, tuple[list[JSONObject], list[Any]]] = {
    "many failures that may be": (
        [
            *({**step, "on_error": "continue"} for step in transforms(99, "sum(trigger.text)")),
            {"id": "end", "type": "webhook", "config": {"url": "http://h/"}},
        ],
        [{"text": "no number"} for _ in range(64)],
    ),
    "many items that fail": (
        [
            {"id": "all", "type": "transform", "for_each": "trigger.items", "on_error": "continue",
             "config": {"expression": "sum(item)"}},
            {"id": "end", "type": "webhook", "config": {"url": "http://h/", "body": "{{ all }}"}},
        ],
        [{"items": ["x"] * 1000} for _ in range(64)],
    ),
    "mappings with long names": (
        [
            {"id": "all", "type": "transform", "for_each": "trigger.items",
             "config": {"mapping": {f"{'n' * 90}{n}": "item" for n in range(20)}}},
            {"id": "end", "type": "webhook", "config": {"url": "http://h/", "body": "{{ all }}"}},
        ],
        [{"items": [1] * 20} for _ in range(64)],
    ),
    "items out of several outputs": (
        [
            *transforms(5, "trigger.text"),
            {"id": "each", "type": "webhook", "for_each": "[s0, s1, s2, s3, s4]",
             "config": {"url": "http://h/{{ item }}"}},
        ],
        [{"text": "x" * 8000} for _ in range(64)],
    ),
    "a large item before many small ones": (
        [
            {"id": "each", "type": "webhook", "config": {"url": "http://h/"}, "max_concurrency": 1,
             "for_each": f"[join('', [{', '.join(['trigger.text'] * 20)}]), {', '.join(['`1`'] * 50)}]"},
        ],
        [{"text": "x" * 3000} for _ in range(64)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", STEPS_WITH_MUCH_DATA)
def test_no_message_is_larger_than_a_mebibyte(case: str) -> None:
    steps, triggers = STEPS_WITH_MUCH_DATA[case]
    world = World({"name": "much", "steps": steps}, random.Random(1))
    world.run([{"n": n, **trigger} for n, trigger in enumerate(triggers)])
    assert 100_000 < world.largest <= MEBIBYTE
    assert len(world.endings) == len(triggers)


BESIDE: JSONObject = {"type": "webhook", "needs": [], "config": {"url": "http://h/", "body": "{{ trigger }}"}}
TOGETHER = {
    "one row, many steps": (1, 60_000, 80),
    "some rows, some steps": (12, 60_000, 8),
    "many rows, some steps": (30, 20_000, 12),
}


@pytest.mark.parametrize("case", TOGETHER)
def test_one_task_asks_for_a_mebibyte_at_most_and_the_rest_follows(case: str) -> None:
    """The server ends a workflow that asks for more than four in one task."""
    rows, size, steps = TOGETHER[case]
    beside = [{"id": f"s{n}", **BESIDE} for n in range(steps)]
    batch = interpreter_of(beside, [{"text": "x" * size} for _ in range(rows)], size=size)
    tasks: list[list[Command]] = []
    while not tasks or isinstance(tasks[-1][-1], Timer):
        tasks.append(batch.advance())
        assert sum(size_of(command) for command in tasks[-1]) <= 1.1 * MEBIBYTE
    calls = [call for task in tasks for one in task if isinstance(one, Call) for call in one.calls.calls]
    assert len(tasks) > 4 and len(calls) == rows * steps


def test_as_many_calls_are_under_way_as_the_server_allows() -> None:
    """Each part of an iterating step is a call of its own."""
    beside = [{"id": f"s{n}", **BESIDE, "for_each": "trigger"} for n in range(80)]
    batch = interpreter_of(beside, [[1] * 50] * 30)
    calls: list[Call] = []
    while commands := batch.advance():
        calls += [command for command in commands if isinstance(command, Call)]
    assert len(calls) == 1000
    batch.take_results(calls[0], [])
    assert sum(isinstance(command, Call) for command in batch.advance()) == 1


def test_what_a_batch_keeps_for_later_steps_is_bounded() -> None:
    calls_of = [f"w{n}" for n in range(20)]
    steps: list[JSONObject] = [
        *({"id": one, "type": "webhook", "config": {"url": "http://h/"}} for one in calls_of),
        {"id": "end", "type": "transform", "config": {"expression": f"[{', '.join(calls_of)}]"}},
    ]
    batch = interpreter_of(steps, [{} for _ in range(64)])
    [*calls] = batch.advance()
    rooms: list[int] = []
    while calls and isinstance(call := calls.pop(), Call):
        rooms.append(call.calls.room)
        size = 20_000 if call.calls.room else 0
        results = [
            StepResult(
                run_id=one.run_id, attempt=1, status="completed",
                output="x" * size, size=size, stored=size == 0,
            )
            for one in call.calls.calls
        ]  # fmt: skip
        batch.take_results(call, results)
        calls += batch.advance()
    assert rooms[0] == 512 * 1024 and rooms[-1] == 0


def test_what_was_sent_along_with_calls_that_are_given_up_ends_in_parts() -> None:
    steps = [*transforms(3, "trigger.text"), {"id": "end", "type": "webhook", "config": {"url": "http://h/"}}]
    batch = interpreter_of(steps, [{"text": "x" * 9000} for _ in range(64)])
    calls: list[Command] = []
    while commands := batch.advance():
        calls += commands
    for command in calls:
        if isinstance(command, Call):
            batch.give_up(command)
    sizes: list[int] = []
    while commands := batch.advance():
        sizes += map(size_of, commands)
    assert batch.ended and 0 < max(sizes) <= MEBIBYTE


def failing(call: Call) -> list[StepResult]:
    error = StepError(code="http_status", message="404")
    return [
        StepResult(run_id=one.run_id, attempt=1, status="failed", error=error) for one in call.calls.calls
    ]


def test_a_run_that_has_failed_does_not_wait_for_its_delays() -> None:
    year = {"id": "wait", "type": "delay", "config": {"seconds": 31_000_000}, "needs": []}
    call = {"id": "call", "type": "webhook", "config": {"url": "http://h/"}, "needs": []}
    batch = interpreter_of([call, year], [{}])
    [command] = batch.advance()
    assert isinstance(command, Call)
    batch.take_results(command, failing(command))
    [end] = batch.advance()
    assert isinstance(end, End) and end.endings.endings[0].status == "failed"
    assert [(record.step_id, record.status) for record in end.endings.records] == [("wait", "cancelled")]


def test_a_run_that_fails_begins_nothing_that_was_ready_beside_the_failure() -> None:
    call = {"id": "call", "type": "webhook", "config": {"url": "http://h/"}, "needs": []}
    each = {**call, "id": "each", "for_each": "[1, 2]"}
    fails = {"id": "fails", "type": "transform", "config": {"expression": "sum(trigger)"}, "needs": []}
    [end] = interpreter_of([call, each, fails], ["no numbers"]).advance()
    assert isinstance(end, End) and end.endings.endings[0].status == "failed"


def test_a_run_that_has_failed_begins_no_other_items() -> None:
    each = {
        "id": "each", "type": "webhook", "config": {"url": "http://h/"}, "needs": [], "for_each": "[1, 2, 3]",
        "max_concurrency": 1,
    }  # fmt: skip
    call = {"id": "call", "type": "webhook", "config": {"url": "http://h/"}, "needs": []}
    batch = interpreter_of([call, each], [{}])
    first, items = batch.advance()
    assert isinstance(first, Call) and isinstance(items, Call)
    batch.take_results(first, failing(first))
    assert batch.advance() == [], "the item that is under way ends first"
    row = items.calls.calls[0].run_id
    batch.take_results(items, [StepResult(run_id=row, item=0, attempt=1, status="completed", output=1)])
    [end] = batch.advance()
    assert isinstance(end, End) and end.endings.endings[0].status == "failed"


def test_a_step_that_an_item_has_failed_ends_after_the_items_under_way() -> None:
    """What they did and cost is part of the run."""
    each = {"id": "each", "type": "webhook", "config": {"url": "http://h/"}, "for_each": "[1, 2, 3, 4]",
            "max_concurrency": 2}  # fmt: skip
    batch = interpreter_of([each], [{}])
    one, other = batch.advance()
    assert isinstance(one, Call) and isinstance(other, Call)
    row = one.calls.calls[0].run_id
    error = StepError(code="http_status", message="404")
    batch.take_results(one, [StepResult(run_id=row, item=0, attempt=1, status="failed", error=error)])
    assert batch.advance() == []
    batch.take_results(other, [StepResult(run_id=row, item=1, attempt=1, status="completed", output=1)])
    [end] = batch.advance()
    assert isinstance(end, End) and end.endings.endings[0].error is not None
    assert "Item 0" in end.endings.endings[0].error.message


def test_a_long_backoff_leaves_the_batch_and_the_attempts_are_remembered() -> None:
    call = {"id": "call", "type": "webhook", "config": {"url": "http://h/"}, "retry": {"max_attempts": 3}}
    batch = interpreter_of([call], [{}])
    [first] = batch.advance()
    assert isinstance(first, Call)
    row = first.calls.calls[0].run_id
    error = StepError(code="http_status", message="503")
    batch.take_results(
        first, [StepResult(run_id=row, attempt=1, status="failed", error=error, retry_after=3600)]
    )
    [leave] = batch.advance()
    assert isinstance(leave, Leave) and leave.wake_at == START + timedelta(hours=1)
    woken = Batch(
        batch_id=NAMESPACE, account_id=NAMESPACE, automation_id=NAMESPACE, version=1, priority=2,
        definition={"name": "bounded", "steps": [call]},
        rows=[BatchRow(run_id=row, trigger={}, started_at=START, progress=leave.runs[0].progress)],
    )  # fmt: skip
    later = Interpreter(woken, lambda: leave.wake_at)
    [timer] = later.advance()
    assert isinstance(timer, Timer)
    timer.then()
    [again] = later.advance()
    assert isinstance(again, Call) and again.calls.calls[0].attempt == 2


def test_equal_waits_of_many_rows_share_a_timer() -> None:
    batch = interpreter_of([{"id": "nap", "type": "delay", "config": {"seconds": 60}}], [{}] * 3)
    assert [type(command) for command in batch.advance()] == [Timer]


def test_a_delay_that_has_passed_is_stored_before_a_new_history_begins() -> None:
    nap = {"id": "nap", "type": "delay", "config": {"seconds": 240}}
    batch = interpreter_of([nap, {**nap, "id": "again"}], [{}])
    [timer] = batch.advance()
    assert isinstance(timer, Timer)
    timer.then()
    [store] = batch.close()
    assert isinstance(store, End) and store.endings.endings == []
    assert [record.step_id for record in store.endings.records] == ["nap"]


def test_the_size_of_every_kind_of_message_is_known() -> None:
    nap = {"id": "nap", "type": "delay", "config": {"seconds": 2}}
    assert [size_of(command) for command in interpreter_of([nap], [{}]).advance()] == [0]
