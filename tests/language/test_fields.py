"""A bare name as the `field` of a lookup step."""

from __future__ import annotations

import pytest

from engine.plan import Plan
from language.definition import Definition
from language.step_evaluation import target_of
from language.steps import LookupStep
from tests.language.documents import Step, report, step, transform

SCOPE = {"trigger": {"email": "a@example.com", "my-ip": "8.8.8.8"}, "person": "b@example.com"}


def lookup(field: str, step_id: str = "look") -> Step:
    return step(step_id, "email_lookup", field=field)


NAMES = {
    "a field of the trigger": ([lookup("email")], "a@example.com"),
    "one with a hyphen": ([lookup("my-ip")], "8.8.8.8"),
    "the output of a step": ([transform("person"), lookup("person")], "b@example.com"),
    "the id of the very step": ([lookup("email", "email")], "a@example.com"),
    "a path, as ever": ([lookup("trigger.email")], "a@example.com"),
}


@pytest.mark.parametrize("case", NAMES)
def test_a_bare_name_is_the_output_of_a_step_or_else_a_field_of_the_trigger(case: str) -> None:
    steps, target = NAMES[case]
    looked_up = Plan(Definition.model_validate({"name": "test", "steps": steps})).steps[-1]
    assert report(*steps).errors == [] and isinstance(looked_up, LookupStep)
    assert target_of(looked_up.config, SCOPE) == target


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([lookup("email")], ["No other step is called email: this reads trigger.email."]),
        ([transform("person"), lookup("person")], []),
        ([lookup("trigger")], []),
    ],
    ids=["of the trigger", "of a step", "the trigger itself"],
)
def test_validation_says_which_names_are_fields_of_the_trigger(steps: list[Step], told: list[str]) -> None:
    found = [one for one in report(*steps).warnings if one.code == "field_of_trigger"]
    assert [(one.message, one.pointer) for one in found] == [(text, "/steps/0/config/field") for text in told]


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([lookup("later"), transform("later")], "later_step"),
        ([lookup("items[0]")], "unknown_reference"),
        ([lookup("secrets")], "secret_not_allowed"),
    ],
)
def test_a_name_that_means_something_else_is_no_field_of_the_trigger(steps: list[Step], code: str) -> None:
    assert [one.code for one in report(*steps).errors] == [code]
