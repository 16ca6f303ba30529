"""A dry run shows what a real run of the same workflow does, and what its steps go by."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from engine.calls import AttemptResult, Call, JSONObject, unevaluated_attempt
from engine.dry_run import DryRun, OutsideAnswers
from engine.state import RunInput
from language import step_evaluation
from language.definition import Definition
from language.expressions import ExpressionError
from language.records import StepRecord
from language.steps import EmitStep, RememberStep, WebhookStep
from language.webhook_requests import RequestTemplates
from tests.engine.definitions import definitions, payloads
from tests.engine.world import NAMESPACE, START, World

_MOCK = {"luck": 5, "ip": "8.8.8.8", "filler": [1, 2]}
_ANSWER = {"status": 200, "headers": {}, "body": None, "sample": True}


@dataclass(repr=False)
class Calm(World):
    """A world in which all that is called answers at once, as in a dry run."""

    def _outcome(self, call: Call) -> AttemptResult:
        step: Any = call.step
        scope = call.complete_scope({name: self._stored(name) for name in call.stored})
        try:
            if isinstance(step, RememberStep):
                step_evaluation.key_of(step.config, scope)
            elif isinstance(step, EmitStep):
                step_evaluation.alert_data_of(step.config, scope)
            elif isinstance(step, WebhookStep) and call.kind == "send":
                RequestTemplates(step.config).render(scope, output_of=call.output_of)
                return AttemptResult(None, _ANSWER)
            elif call.kind == "look_up":
                return AttemptResult(None, {"ip_address": step_evaluation.target_of(step.config, scope)})
            elif call.item is not None:
                return AttemptResult(None, {"sample": True})
            elif call.kind not in ("collect", "run_child"):
                return super()._outcome(call)
        except ExpressionError as error:
            return unevaluated_attempt(error)
        return AttemptResult(None, _MOCK)


def told(record: StepRecord, step: JSONObject) -> Any:
    """Return how a step ended, and, where that is decided within the run, what it went by."""
    pure = step["type"] in ("condition", "transform", "delay") or "for_each" in step
    output = None if step["type"] == "delay" else record.output
    return record.status, output, record.error, record.input if pure else None


@settings(max_examples=60, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(definitions(), st.integers(0, 9))
def test_a_dry_run_comes_to_what_a_real_run_does_by_the_same_inputs(definition: JSONObject, n: int) -> None:
    payload = payloads(n + 1)[n]
    world = Calm(definition, payload, random.Random(n))
    ended = world.run()
    mocks = {
        step["id"]: _MOCK
        for step in definition["steps"]
        if step["type"] in ("wait", "workflow", "remember", "emit") and "for_each" not in step
    }
    dry = DryRun(
        Definition.model_validate(definition),
        RunInput(world.run_id, START, trigger=payload, size=50),
        {"id": str(NAMESPACE), "name": definition["name"]},
        OutsideAnswers(lambda step, text: {"ip_address": text}, secrets=[], mocks=mocks),
        lambda: START,
    ).run()
    assert dry.ended == ended
    steps = {step["id"]: step for step in definition["steps"]}
    shown = {record.step_id: told(record, steps[record.step_id]) for record in dry.records}
    assert shown == {step_id: told(record, steps[step_id]) for step_id, record in world.records.items()}
