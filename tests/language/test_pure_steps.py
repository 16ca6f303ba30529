"""Conditions, transforms and items: what they give, what that counts as, and the bounds they keep."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from pydantic import TypeAdapter

from language import delays, step_evaluation
from language.expressions import Budget, ExpressionError
from language.expressions.values import MAX_VALUE_DEPTH
from language.steps import DelayConfig, Step
from tests.language.documents import condition, message, step, transform

STEP: TypeAdapter[Any] = TypeAdapter(Step)


def evaluated(step: dict[str, Any], trigger: Any, budget: Budget | None = None) -> Any:
    return step_evaluation.evaluate(STEP.validate_python(step), {"trigger": trigger}, budget or Budget())


def code_of(step: dict[str, Any], trigger: Any, budget: Budget | None = None) -> str:
    with pytest.raises(ExpressionError) as caught:
        evaluated(step, trigger, budget)
    return caught.value.code


def mapping(**more: Any) -> dict[str, Any]:
    return step("a", "transform", mapping={"customer é": "trigger", "state": "'x'"}) | more


CONTINUED = {"for_each": "trigger", "on_error": "continue"}
OUTPUTS: dict[str, tuple[dict[str, Any], Any]] = {
    "a condition": (condition("a", "trigger"), ["x" * 100]),
    "a value": (transform("a", "trigger"), ["x" * 100]),
    "a mapping": (mapping(), None),
    "no items": (transform("a", "item", for_each="trigger"), []),
    "items": (transform("a", "item", for_each="trigger"), [1, 2, "é"]),
    "mappings of items": (mapping(for_each="trigger"), [1, 2]),
    "items that failed": (transform("a", "length(item)", **CONTINUED), [1, "x", 2]),
}


@pytest.mark.parametrize("case", OUTPUTS)
def test_an_output_counts_as_many_bytes_as_its_json_has(case: str) -> None:
    document, trigger = OUTPUTS[case]
    budget = Budget()
    output = evaluated(document, trigger, budget)
    assert 1_048_576 - budget.output_left == len(orjson.dumps(output))


@pytest.mark.parametrize("case", OUTPUTS)
def test_an_output_one_byte_too_large_is_refused(case: str) -> None:
    document, trigger = OUTPUTS[case]
    size = len(orjson.dumps(evaluated(document, trigger)))
    # What a step goes over is no part of its output, but bounded as if it were.
    room = max(size, len(orjson.dumps(trigger)))
    assert evaluated(document, trigger, Budget(output_bytes=room)) is not None
    assert code_of(document, trigger, Budget(output_bytes=size - 1)) == "output_too_large"


def test_the_items_are_not_counted_with_what_is_made_of_them() -> None:
    large = "x" * 700_000
    assert evaluated(transform("a", "item", for_each="trigger"), [large]) == [large]


def test_an_item_of_a_mapping_is_as_shallow_as_messages_carry_it() -> None:
    value: Any = 1
    for _ in range(MAX_VALUE_DEPTH - 3):
        value = [value]
    assert evaluated(mapping(for_each="[trigger]"), value)[0]["customer é"] == value
    assert code_of(mapping(for_each="[trigger]"), [value]) == "too_deep"


# What is said of an error


@pytest.mark.parametrize(
    ("key", "place"), [("country", "Key country"), ("a-b_7", "Key a-b_7"), ("country code", "A key")]
)
def test_an_error_of_a_mapping_names_the_key_when_it_is_saved_and_when_it_runs(key: str, place: str) -> None:
    document = step("a", "transform", mapping={"fine": "'x'", key: "trigger && lower(trigger)"})
    with pytest.raises(ExpressionError) as caught:
        evaluated(document, {"x": 1})
    assert caught.value.message == f"{place}, at character 18: lower() takes a string, not an object."
    refused = step("a", "transform", mapping={"fine": "'x'", key: "trigger && lower()"})
    assert message(refused) == f"{place}, at character 12: lower() takes 1 argument, not 0."


# What is charged


WORK = {
    "a sum that fails at the end": "sum($.trigger.mixed)",
    "the greatest of what is mixed": "max($.trigger.mixed)",
    "a sort that fails": "sort($.trigger.mixed)",
    "a join that fails": "join('', $.trigger.mixed)",
    "what is flattened": "$.trigger.mixed[] | length(@)",
    "a long string": "$.trigger.word",
    "long names": "$.trigger.names",
}


@pytest.mark.parametrize("case", WORK)
def test_what_is_looked_at_again_for_each_item_is_charged_whatever_comes_of_it(case: str) -> None:
    trigger = {
        "items": [1] * 100, "mixed": [*range(20_000), None], "word": "\n" * 500_000,
        "names": {"\n" * 250_000: 1, "\r" * 250_000: 2},
    }  # fmt: skip
    document = transform("a", WORK[case], for_each="trigger.items", on_error="continue")
    budget = Budget(nodes=10_000)
    assert code_of(document, trigger, budget) == "too_many_nodes"
    assert budget.exhausted


def test_a_step_whose_budget_ran_out_fails_as_a_whole() -> None:
    document = transform("a", "item[*].x", **CONTINUED)
    trigger = [[1] * 10, [1] * 1000, [1] * 10]
    budget = Budget(nodes=500)
    assert code_of(document, trigger, budget) == "too_many_nodes"
    assert budget.exhausted and budget.nodes_left == 0


def test_each_item_has_the_nodes_of_a_step_and_one_that_needs_more_fails_alone() -> None:
    rows = [{"orders": [{"status": "open"}] * 20}] * 1000
    document = transform("a", "length(item.orders[?status=='open'])", for_each="trigger")
    assert evaluated(document, rows, step_evaluation.budget_of(STEP.validate_python(document))) == [20] * 1000

    heavy = transform("a", "item[*].x | length(@)", **CONTINUED)
    trigger = [[1], [1] * 60_000, [1]]
    found = evaluated(heavy, trigger, step_evaluation.budget_of(STEP.validate_python(heavy)))
    assert [found[0], found[1]["error"]["code"], found[2]] == [0, "too_many_nodes", 0]


def test_all_items_together_have_ten_times_the_nodes_of_a_step() -> None:
    document = transform(
        "a", "$.trigger.rows[*].x | length(@)", for_each="trigger.items", on_error="continue"
    )
    trigger: dict[str, Any] = {"rows": [1] * 30_000}
    budget = step_evaluation.budget_of(STEP.validate_python(document))
    small = step_evaluation.budget_of(STEP.validate_python(transform("a")))
    assert (budget.nodes_left, small.nodes_left) == (1_000_000, 100_000)
    assert evaluated(document, trigger | {"items": [1] * 16}, budget) == [0] * 16
    assert code_of(
        document, trigger | {"items": [1] * 17}, step_evaluation.budget_of(STEP.validate_python(document))
    ) == ("too_many_nodes")


def test_the_work_of_until_can_be_charged_to_a_budget() -> None:
    config = DelayConfig(until="{{ trigger[*].at | [0] }}")
    scope = {"trigger": [{"at": "2026-12-24T18:00:00Z"}] * 100}
    budget = Budget(nodes=1000)
    assert (
        step_evaluation.delay_of(config, scope, budget)
        == step_evaluation.delay_of(config, scope)
        == "2026-12-24T18:00:00Z"
    )
    assert budget.nodes_left < 900
    with pytest.raises(ExpressionError) as caught:
        step_evaluation.delay_of(config, scope, Budget(nodes=100))
    assert caught.value.code == "too_many_nodes"


NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "until",
    [
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "2026-12-24T18:00:00",
        "tomorrow",
        "",
        5,
        None,
    ],
    ids=str,
)
def test_an_event_whose_time_is_none_fails_the_delay(until: Any) -> None:
    with pytest.raises(ExpressionError) as caught:
        delays.end_of(DelayConfig(until="{{ trigger.at }}"), until, NOW)
    assert caught.value.code == "bad_timestamp"


def test_a_delay_ends_when_its_time_comes_in_utc_a_year_later_at_most() -> None:
    config = DelayConfig(until="{{ trigger.at }}")
    assert delays.end_of(config, "2026-01-02T01:00:00+01:00", NOW) == datetime(2026, 1, 2, tzinfo=UTC)
    assert delays.end_of(config, "0001-01-01T00:00:00Z", NOW) < NOW
    assert delays.end_of(config, "2027-01-01T00:00:00Z", NOW) == datetime(2027, 1, 1, tzinfo=UTC)
    with pytest.raises(ExpressionError) as caught:
        delays.end_of(config, "2027-01-01T00:00:01Z", NOW)
    assert caught.value.code == "delay_too_long"


def test_a_delay_of_a_duration_ends_so_long_after_it_began() -> None:
    assert delays.end_of(DelayConfig(duration="1h30m"), None, NOW) == NOW + timedelta(minutes=90)
    config = DelayConfig(duration="{{ trigger.pause }}")
    assert delays.end_of(config, "PT5M", NOW) == NOW + timedelta(minutes=5)
    assert delays.end_of(config, "0s", NOW) == NOW


@pytest.mark.parametrize(
    ("pause", "code"),
    [
        ("soon", "bad_duration"), ("", "bad_duration"), (5, "bad_duration"), (None, "bad_duration"),
        ("366d", "delay_too_long"), ("999999999w", "delay_too_long"),
    ],
)  # fmt: skip
def test_a_duration_that_cannot_be_waited_for_fails_the_delay(pause: Any, code: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        delays.end_of(DelayConfig(duration="{{ trigger.pause }}"), pause, NOW)
    assert caught.value.code == code
