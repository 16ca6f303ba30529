"""What a dry run does with each type of step, apart from the API."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from language.definition import LookupStep
from language.delays import written
from language.records import StepError
from models.identifiers import new_id
from tests.automations.engine import transform, webhook
from workflows.messages import BatchRow
from workflows.rehearsal import MAX_CALLS, Rehearsal, Rehearsed, batch_of_one

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LOOK = {"id": "look", "type": "ip_lookup", "config": {"field": "trigger.ip"}}


class Answers:
    """Answers lookups, and remembers them."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def __call__(self, step: LookupStep, text: str) -> Any:
        self.asked.append((step.kind, text))
        if text == "bad":
            return StepError(code="invalid_input", message="This is not an IP address.")
        return {"ip_address": text}


def rehearse(steps: list[dict[str, Any]], payload: Any = None, answers: Answers | None = None) -> Rehearsed:
    batch = batch_of_one(
        {"name": "w", "steps": steps},
        account_id=new_id(),
        automation_id=new_id(),
        version=3,
        row=BatchRow(run_id=new_id(), trigger=payload, started_at=NOW),
    )
    look_up = answers or Answers()
    return Rehearsal(batch, now=lambda: NOW, look_up=look_up, secrets=["KEY"]).run()


def outcome(rehearsed: Rehearsed) -> dict[str, tuple[str, Any]]:
    return {record.step_id: (record.status, record.output) for record in rehearsed.records}


def test_an_until_that_is_much_to_evaluate_and_comes_to_nothing_fails() -> None:
    until = "{{ map(&to_string(@), trigger.items) && trigger.nothing }}"
    step = {"id": "nap", "type": "delay", "config": {"until": until}}
    rehearsed = rehearse([step], {"items": list(range(15_000))})
    assert rehearsed.error is not None and rehearsed.error.code == "bad_timestamp"


def test_transforms_conditions_and_branches_are_evaluated() -> None:
    steps = [
        transform("a", "trigger.n"),
        {
            "id": "if",
            "type": "condition",
            "config": {"expression": "a > `2`", "then": ["yes"], "else": ["no"]},
        },
        transform("yes", "[a, if.result]"),
        transform("no", "'no'"),
        transform("last", "steps.no.status"),
    ]
    rehearsed = rehearse(steps, {"n": 3})
    assert rehearsed.error is None
    assert outcome(rehearsed) == {
        "a": ("completed", 3), "if": ("completed", {"result": True}), "yes": ("completed", [3, True]),
        "last": ("completed", "skipped"),
    }  # fmt: skip


def test_a_request_is_rendered_without_its_secrets_and_not_sent() -> None:
    step = webhook(
        "https://example.com/{{ trigger.id }}", headers={"Authorization": "Bearer {{ secrets.KEY }}"},
        body={"n": "{{ trigger.n }}", "key": "{{ secrets.KEY }}"}, method="PUT",
    )  # fmt: skip
    [record] = rehearse([step], {"id": "x y", "n": 5}).records
    assert record.input == {
        "method": "PUT",
        "url": "https://example.com/x%20y",
        "headers": {"Authorization": "Bearer ***"},
        "body": {"n": 5, "key": "***"},
    }
    assert record.output == {"status": 200, "headers": {}, "body": None}


@pytest.mark.parametrize(("success", "status"), [("2xx", 200), ("204", 204), (["3xx", "201"], 300)])
def test_the_answer_to_a_request_is_one_that_counts_as_a_success(success: Any, status: int) -> None:
    [record] = rehearse([webhook("https://example.com", success=success)]).records
    assert (record.status, record.output["status"]) == ("completed", status)


def test_a_request_that_names_a_missing_secret_fails_as_it_would() -> None:
    rehearsed = rehearse([webhook("https://example.com/{{ secrets.GONE }}")])
    assert rehearsed.error is not None
    assert (rehearsed.error.code, rehearsed.error.step) == ("unknown_secret", "call")


def test_a_lookup_is_answered_by_the_caller() -> None:
    answers = Answers()
    rehearsed = rehearse([LOOK, transform("out", "look.ip_address")], {"ip": "8.8.8.8"}, answers)
    assert answers.asked == [("ip", "8.8.8.8")]
    first = rehearsed.records[0]
    assert (first.input, first.output) == ("8.8.8.8", {"ip_address": "8.8.8.8"})
    assert outcome(rehearsed)["out"] == ("completed", "8.8.8.8")


ALL_DONE = {"look": "failed", "mend": "completed", "last": "completed"}
FAILING: dict[str, tuple[Any, Any, dict[str, str], str | None]] = {
    "by default it fails the run": ("fail", "bad", {"look": "failed"}, "invalid_input"),
    "continue goes on": ("continue", "bad", ALL_DONE, None),
    "on_error runs its steps": (["mend"], "bad", ALL_DONE, None),
    "on_error is skipped when nothing fails": (
        ["mend"], "8.8.8.8", {"look": "completed", "last": "completed"}, None,
    ),
    "a reference that gives no text": ("fail", 7, {"look": "failed"}, "missing_value"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILING)
def test_a_lookup_that_fails_takes_the_way_of_a_real_one(case: str) -> None:
    on_error, ip, expected, code = FAILING[case]
    steps = [{**LOOK, "on_error": on_error}, transform("mend", "'m'"), transform("last", "'x'")]
    rehearsed = rehearse(steps, {"ip": ip})
    assert {record.step_id: record.status for record in rehearsed.records} == expected
    assert (rehearsed.error.code if rehearsed.error else None) == code


def test_delays_pass_at_once_whether_short_or_long_and_side_by_side() -> None:
    steps = [
        {"id": "short", "type": "delay", "config": {"seconds": 5}},
        {"id": "long", "type": "delay", "config": {"days": 30}, "needs": []},
        transform("after", "[short.until, long.until]", needs=["short", "long"]),
        {"id": "then", "type": "delay", "config": {"hours": 1}},
        {"id": "past", "type": "delay", "config": {"until": "2026-03-20T00:00:00Z"}},
        webhook("https://example.com", "send"),
    ]
    rehearsed = rehearse(steps)
    assert rehearsed.error is None
    until = {name: output for name, (_, output) in outcome(rehearsed).items()}
    assert until["after"] == [
        written(NOW + timedelta(seconds=5)),
        written(NOW + timedelta(days=30)),
    ]
    assert until["then"]["until"] > until["long"]["until"]
    assert until["past"] == {"until": "2026-03-20T00:00:00Z"}
    assert {record.completed_at for record in rehearsed.records} == {NOW}


def test_a_step_over_items_has_an_output_in_their_order() -> None:
    each = {**LOOK, "for_each": "trigger", "config": {"field": "item"}, "max_concurrency": 2}
    answers = Answers()
    rehearsed = rehearse([each, transform("n", "length(look)")], ["a", "b", "c"], answers)
    record = rehearsed.records[0]
    assert record.output == [{"ip_address": "a"}, {"ip_address": "b"}, {"ip_address": "c"}]
    assert record.input == ["a", "b", "c"]
    assert sorted(answers.asked) == [("ip", "a"), ("ip", "b"), ("ip", "c")]
    assert outcome(rehearsed)["n"] == ("completed", 3)


def test_an_item_that_fails_is_an_error_among_the_outputs_where_the_step_continues() -> None:
    each = {**LOOK, "for_each": "trigger", "config": {"field": "item"}, "on_error": "continue"}
    rehearsed = rehearse([each], ["a", "bad"])
    assert rehearsed.error is None
    assert rehearsed.records[0].output == [
        {"ip_address": "a"},
        {"error": {"code": "invalid_input", "message": "This is not an IP address."}},
    ]


def test_an_item_that_fails_fails_the_step_and_is_named() -> None:
    each = {**LOOK, "for_each": "trigger", "config": {"field": "item"}}
    rehearsed = rehearse([each], ["a", "bad"])
    assert rehearsed.error is not None
    assert (rehearsed.error.step, rehearsed.error.code) == ("look", "invalid_input")
    assert rehearsed.error.message.startswith("Item 1: ")
    assert rehearsed.records[0].output is None


def test_much_data_is_no_matter() -> None:
    steps = [
        transform("big", "trigger"),
        {**LOOK, "for_each": "big", "config": {"field": "item"}, "id": "each"},
        transform("all", "join('', each[].ip_address)"),
        transform("n", "length(all)"),
    ]
    rehearsed = rehearse(steps, ["x" * 1000] * 300)
    assert rehearsed.error is None
    assert outcome(rehearsed)["n"] == ("completed", 300_000)


def test_a_dry_run_has_so_many_calls_and_no_more() -> None:
    each = {**LOOK, "for_each": "trigger", "config": {"field": "item"}}
    answers = Answers()
    rehearsed = rehearse([each, {**each, "id": "again"}], ["a"] * (MAX_CALLS - 1), answers)
    assert rehearsed.error is not None
    assert (rehearsed.error.step, rehearsed.error.code) == ("again", "too_many_calls")
    assert len(answers.asked) == MAX_CALLS


def test_a_workflow_without_steps_completes() -> None:
    assert rehearse([]) == Rehearsed(None, [])


def test_a_request_reads_more_data_than_a_message_carries() -> None:
    large = [transform(f"t{n}", "trigger.text") for n in range(6)]
    step = webhook("https://example.com/", body={f"t{n}": f"{{{{ t{n} }}}}" for n in range(6)})
    record = rehearse([*large, step], {"text": "x" * 60_000}).records[-1]
    assert {name: len(text) for name, text in record.input["body"].items()} == {
        f"t{n}": 60_000 for n in range(6)
    }


MUCH = "length(map(&to_string(@), trigger.items))"


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        pytest.param(transform("heavy", MUCH), 15_000, id="a transform"),
        pytest.param(
            {**webhook("https://example.com/{{ item }}", "heavy"), "for_each": f"[{MUCH}]"},
            [{"status": 200, "headers": {}, "body": None}],
            id="an array of items",
        ),
        pytest.param(
            {"id": "heavy", "type": "delay", "config": {"until": f"{{{{ {MUCH} && '2026-03-02T12:00Z' }}}}"}},
            {"until": "2026-03-02T12:00:00Z"},
            id="an until",
        ),
    ],
)
def test_what_is_too_much_for_a_workflow_is_done_all_the_same(step: dict[str, Any], expected: Any) -> None:
    [record] = rehearse([step], {"items": list(range(15_000))}).records
    assert (record.status, record.output) == ("completed", expected)


def test_a_run_that_fails_ends_at_once() -> None:
    fails = transform("fails", "sum(trigger)", needs=[])
    waits = {"id": "waits", "type": "delay", "config": {"seconds": 31_000_000}, "needs": []}
    rehearsed = rehearse([waits, fails], "text")
    assert {record.step_id: record.status for record in rehearsed.records} == {
        "waits": "cancelled", "fails": "failed",
    }  # fmt: skip
