"""What a dry run does with each type of step, apart from the API."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
import pytest

from engine.dry_run import MAX_CALLS, DryRun, DryRunResult, OutsideAnswers
from engine.records import RunEnd
from engine.state import RunInput
from language.definition import Definition
from language.delays import write_time
from language.records import INLINE_BYTES, StepError
from language.steps import LookupStep
from models.identifiers import new_id
from tests.automations.engine import transform, webhook

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ANSWERED = {"status": 200, "headers": {}, "body": None, "sample": True}
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


def dry_run(
    steps: list[dict[str, Any]], payload: Any = None, answers: Answers | None = None, **more: Any
) -> DryRunResult:
    definition = Definition.model_validate({"name": "w", "steps": steps})
    run = RunInput(new_id(), NOW, trigger=payload, size=len(orjson.dumps(payload)))
    look_up = answers or Answers()
    outside = OutsideAnswers(look_up, secrets=["KEY"], **more)
    return DryRun(definition, run, {"name": "w"}, outside, lambda: NOW).run()


def outcome(result: DryRunResult) -> dict[str, tuple[str, Any]]:
    return {record.step_id: (record.status, record.output) for record in result.records}


def test_an_until_that_is_much_to_evaluate_and_comes_to_nothing_fails() -> None:
    until = "{{ map(&to_string(@), trigger.items) && trigger.nothing }}"
    step = {"id": "nap", "type": "delay", "config": {"until": until}}
    result = dry_run([step], {"items": list(range(15_000))})
    assert result.ended.error is not None and result.ended.error.code == "bad_timestamp"


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
    result = dry_run(steps, {"n": 3})
    assert result.ended.error is None
    assert outcome(result) == {
        "a": ("completed", 3), "if": ("completed", {"result": True}), "yes": ("completed", [3, True]),
        "last": ("completed", "skipped"),
    }  # fmt: skip


def test_a_request_is_rendered_without_its_secrets_and_not_sent() -> None:
    step = webhook(
        "https://example.com/{{ trigger.id }}", headers={"Authorization": "Bearer {{ secrets.KEY }}"},
        body={"n": "{{ trigger.n }}", "key": "{{ secrets.KEY }}"}, method="PUT",
    )  # fmt: skip
    [record] = dry_run([step], {"id": "x y", "n": 5}).records
    assert record.input == {
        "method": "PUT",
        "url": "https://example.com/x%20y",
        "headers": {"Authorization": "Bearer ***"},
        "body": {"n": 5, "key": "***"},
    }
    assert record.output == ANSWERED


@pytest.mark.parametrize(("success", "status"), [("2xx", 200), ("204", 204), (["3xx", "201"], 300)])
def test_the_answer_to_a_request_is_one_that_counts_as_a_success(success: Any, status: int) -> None:
    [record] = dry_run([webhook("https://example.com", success=success)]).records
    assert (record.status, record.output["status"]) == ("completed", status)


def test_a_request_that_names_a_missing_secret_fails_as_it_would() -> None:
    result = dry_run([webhook("https://example.com/{{ secrets.GONE }}")])
    assert result.ended.error is not None
    assert (result.ended.error.code, result.ended.error.step) == ("unknown_secret", "call")


def test_a_lookup_is_answered_by_the_caller() -> None:
    answers = Answers()
    result = dry_run([LOOK, transform("out", "look.ip_address")], {"ip": "8.8.8.8"}, answers)
    assert answers.asked == [("ip", "8.8.8.8")]
    first = result.records[0]
    assert (first.input, first.output) == ("8.8.8.8", {"ip_address": "8.8.8.8"})
    assert outcome(result)["out"] == ("completed", "8.8.8.8")


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
    result = dry_run(steps, {"ip": ip})
    assert {record.step_id: record.status for record in result.records} == expected
    assert (result.ended.error.code if result.ended.error else None) == code


def test_delays_pass_at_once_whether_short_or_long_and_side_by_side() -> None:
    steps = [
        {"id": "short", "type": "delay", "config": {"seconds": 5}},
        {"id": "long", "type": "delay", "config": {"days": 30}, "needs": []},
        transform("after", "[short.until, long.until]", needs=["short", "long"]),
        {"id": "then", "type": "delay", "config": {"hours": 1}},
        {"id": "past", "type": "delay", "config": {"until": "2026-03-20T00:00:00Z"}},
        webhook("https://example.com", "send"),
    ]
    result = dry_run(steps)
    assert result.ended.error is None
    until = {name: output for name, (_, output) in outcome(result).items()}
    assert until["after"] == [
        write_time(NOW + timedelta(seconds=5)),
        write_time(NOW + timedelta(days=30)),
    ]
    assert until["then"]["until"] > until["long"]["until"]
    assert until["past"] == {"until": "2026-03-20T00:00:00Z"}
    assert {record.completed_at for record in result.records} == {NOW}


def test_a_step_over_items_has_an_output_in_their_order() -> None:
    each = {**LOOK, "for_each": "trigger", "config": {"field": "item"}, "max_concurrency": 2}
    answers = Answers()
    result = dry_run([each, transform("n", "length(look)")], ["a", "b", "c"], answers)
    record = result.records[0]
    assert record.output == [{"ip_address": "a"}, {"ip_address": "b"}, {"ip_address": "c"}]
    assert record.input == ["a", "b", "c"]
    assert sorted(answers.asked) == [("ip", "a"), ("ip", "b"), ("ip", "c")]
    assert outcome(result)["n"] == ("completed", 3)


def test_an_item_that_fails_is_an_error_among_the_outputs_where_the_step_continues() -> None:
    each = {**LOOK, "for_each": "trigger", "config": {"field": "item"}, "on_error": "continue"}
    result = dry_run([each], ["a", "bad"])
    assert result.ended.error is None
    assert result.records[0].output == [
        {"ip_address": "a"},
        {"error": {"code": "invalid_input", "message": "This is not an IP address."}},
    ]


def test_an_item_that_fails_fails_the_step_and_is_named() -> None:
    each = {**LOOK, "for_each": "trigger", "config": {"field": "item"}}
    result = dry_run([each], ["a", "bad"])
    assert result.ended.error is not None
    assert (result.ended.error.step, result.ended.error.code) == ("look", "invalid_input")
    assert result.ended.error.message.startswith("Item 1: ")
    assert result.records[0].output is None


def test_much_data_is_no_matter() -> None:
    steps = [
        transform("big", "trigger"),
        {**LOOK, "for_each": "big", "config": {"field": "item"}, "id": "each"},
        transform("all", "join('', each[].ip_address)"),
        transform("n", "length(all)"),
    ]
    result = dry_run(steps, ["x" * 1000] * 300)
    assert result.ended.error is None
    assert outcome(result)["n"] == ("completed", 300_000)


def test_a_dry_run_has_so_many_calls_and_no_more() -> None:
    each = {**LOOK, "for_each": "trigger", "config": {"field": "item"}}
    answers = Answers()
    result = dry_run([each, {**each, "id": "again"}], ["a"] * (MAX_CALLS - 1), answers)
    assert result.ended.error is not None
    assert (result.ended.error.step, result.ended.error.code) == ("again", "too_many_calls")
    assert len(answers.asked) == MAX_CALLS


def test_a_workflow_without_steps_completes() -> None:
    assert dry_run([]) == DryRunResult(RunEnd("completed", None, None), [])


def test_a_request_reads_more_data_than_a_message_carries() -> None:
    large = [transform(f"t{n}", "trigger.text") for n in range(6)]
    step = webhook("https://example.com/", body={f"t{n}": f"{{{{ t{n} }}}}" for n in range(6)})
    record = dry_run([*large, step], {"text": "x" * 60_000}).records[-1]
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
            [ANSWERED],
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
    [record] = dry_run([step], {"items": list(range(15_000))}).records
    assert (record.status, record.output) == ("completed", expected)


def test_a_run_that_fails_ends_at_once() -> None:
    fails = transform("fails", "sum(trigger)", needs=[])
    waits = {"id": "waits", "type": "delay", "config": {"seconds": 31_000_000}, "needs": []}
    result = dry_run([waits, fails], "text")
    assert {record.step_id: record.status for record in result.records} == {
        "waits": "cancelled", "fails": "failed",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        pytest.param("text", {"fails": "failed"}, id="at once"),
        pytest.param("x" * INLINE_BYTES, {"call": "completed", "fails": "failed"}, id="as a call"),
    ],
)
def test_a_request_is_sent_unless_a_step_beside_it_has_failed_before(
    payload: str, expected: dict[str, str]
) -> None:
    """A real run evaluates what is small at once, and reads what is large only with calls."""
    steps = [webhook("https://example.com"), transform("fails", "sum(trigger)", needs=[])]
    result = dry_run(steps, payload)
    assert {record.step_id: record.status for record in result.records} == expected


def test_items_are_so_many_at_a_time_and_end_with_the_first_that_fails() -> None:
    each = {**LOOK, "for_each": "trigger", "config": {"field": "item"}, "max_concurrency": 2}
    answers = Answers()
    dry_run([each], ["a", "bad", "c", "d"], answers)
    assert [text for _, text in answers.asked] == ["a", "bad"]


def test_what_a_run_evaluates_by_itself_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.dry_run.MAX_NODES", 500)
    result = dry_run([transform(f"s{n}", "trigger") for n in range(20)], 4)
    assert result.ended.error is not None
    assert (result.ended.error.code, result.ended.output_of) == ("dry_run_too_large", None)
    assert result.ended.error.step == result.records[-1].step_id


WAIT = {"id": "wait", "type": "wait", "config": {"timeout": 60, "on_timeout": "continue"}}
CHILD = {
    "id": "child",
    "type": "workflow",
    "config": {"workflow_id": str(UUID(int=1)), "input": "{{ trigger }}"},
}
REMEMBER = {"id": "seen", "type": "remember", "config": {"key": "{{ trigger }}", "ttl": 60}}


EMIT = {"id": "tell", "type": "emit", "config": {"event": "workflow.alert", "data": ["{{ trigger }}"]}}


def test_what_others_would_bring_is_a_sample_that_says_so() -> None:
    result = dry_run([WAIT, CHILD, REMEMBER, EMIT], "x")
    at = write_time(NOW)
    assert [(record.input, record.output) for record in result.records] == [
        (
            {"timeout": 60, "on_timeout": "continue"},
            {"resumed": True, "body": None, "at": at, "sample": True},
        ),
        ({"workflow_id": str(UUID(int=1)), "input": "x"}, {"sample": True}),
        ({"key": "x"}, {"seen": False, "first_at": at, "count": 1, "sample": True}),
        ({"event": "workflow.alert", "data": ["x"]}, {"event_id": None, "webhooks": 0, "sample": True}),
    ]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("x" * 65_536, "alert_too_large"),
        (["a\0b"], "nul_character"),
        ("\\\\\0", "nul_character"),
        ("x" * 65_533, None),
        ("\\u0000", None),
    ],
    ids=["too large", "nul", "nul after a backslash", "as large as may be", "the letters of an escape"],
)
def test_an_alert_that_could_not_be_stored_or_shown_fails(data: Any, code: str | None) -> None:
    step = {**EMIT, "config": {"event": "workflow.alert", "data": "{{ trigger }}"}}
    [record] = dry_run([step], data).records
    assert (record.error.code if record.error else None) == code


def test_a_key_that_is_none_fails_as_it_would() -> None:
    [record] = dry_run([REMEMBER]).records
    assert record.error is not None and record.error.code == "missing_value"


def test_a_workflow_is_run_for_each_item_of_an_array_that_is_much_to_evaluate() -> None:
    step = {**CHILD, "for_each": f"[{MUCH}, 'b']"}
    [record] = dry_run([step], {"items": list(range(15_000))}).records
    assert (record.status, record.output) == ("completed", [{"sample": True}] * 2)


def test_a_workflow_that_does_not_run_fails_the_step() -> None:
    gone = StepError(code="workflow_not_found", message="Gone.")
    result = dry_run([CHILD], 4, refuse_child=lambda step, given: gone)
    assert result.ended.error is not None and result.ended.error.code == "workflow_not_found"


def test_a_request_that_would_not_be_sent_fails_the_step() -> None:
    refused = StepError(code="forbidden_address", message="No.")
    result = dry_run([webhook("https://10.0.0.1/")], refuse_request=lambda request: refused)
    assert result.ended.error is not None and result.ended.error.code == "forbidden_address"
    assert result.records[0].input["url"] == "https://10.0.0.1/"


def test_a_resume_url_is_masked_in_a_request() -> None:
    step = webhook("https://example.com", body="{{ run.resume_urls.wait }}")
    assert dry_run([step, WAIT]).records[0].input["body"] == "***"


MOCKABLE: dict[str, Any] = {
    "a transform": transform("mocked", "sum('x')"),
    "a lookup": {**LOOK, "id": "mocked", "config": {"value": "8.8.8.8"}},
    "a webhook": webhook("https://example.com", "mocked"),
    "a wait": {**WAIT, "id": "mocked"},
    "a workflow": {**CHILD, "id": "mocked"},
    "a remember": {**REMEMBER, "id": "mocked", "config": {"key": "k", "ttl": 60}},
    "an emit": {**EMIT, "id": "mocked"},
    "a step over items": {**LOOK, "id": "mocked", "for_each": "trigger.missing"},
}


@pytest.mark.parametrize("case", MOCKABLE)
def test_a_mock_is_the_output_of_its_step(case: str) -> None:
    mock = ["x" * INLINE_BYTES]
    result = dry_run([MOCKABLE[case], transform("out", "mocked")], mocks={"mocked": mock})
    assert outcome(result) == {"mocked": ("completed", mock), "out": ("completed", mock)}


@pytest.mark.parametrize("result", [True, False])
def test_the_mock_of_a_condition_decides_its_branch(result: bool) -> None:
    condition = {
        "id": "if",
        "type": "condition",
        "config": {"expression": "sum('x')", "then": ["yes"], "else": ["no"]},
    }
    steps = [condition, transform("yes", "'yes'"), transform("no", "'no'")]
    found = outcome(dry_run(steps, mocks={"if": {"result": result}}))
    assert [*found] == ["if", "yes" if result else "no"]


def test_a_step_with_a_mock_is_skipped_where_its_if_is_false() -> None:
    steps = [{**MOCKABLE["a transform"], "if": "trigger"}, transform("out", "steps.mocked.status")]
    assert outcome(dry_run(steps, mocks={"mocked": 1})) == {"out": ("completed", "skipped")}


def test_a_mock_stands_for_an_answer_and_not_for_what_is_asked() -> None:
    answers = Answers()
    result = dry_run([LOOK], {"ip": "8.8.8.8"}, answers, mocks={"look": 1})
    assert (result.records[0].input, result.records[0].output, answers.asked) == ("8.8.8.8", 1, [])
    missing = dry_run([webhook("https://example.com/{{ secrets.GONE }}")], mocks={"call": 1})
    assert missing.ended.error is not None and missing.ended.error.code == "unknown_secret"
