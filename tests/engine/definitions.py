"""Random workflows, what they are started with, and how their outcomes are compared."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import strategies as st

from engine.calls import JSONObject
from language.definition import Definition

_CHILD = str(UUID(int=8))
_ON_TIMEOUT = ["fail", "continue"]
_KINDS = [
    "transform", "condition", "webhook", "lookup", "delay", "each", "wait", "workflow", "remember", "emit"
]  # fmt: skip


@st.composite
def definitions(draw: st.DrawFn, *, all_may_fail: bool = False) -> JSONObject:
    """Workflows of every step type, with `if`, branches, needs, retries, items and errors.

    Where steps run side by side none may fail the run: what the others have done by then is a matter of time.
    Unless all may.
    """
    steps: list[JSONObject] = []
    side_by_side = draw(st.booleans())
    total = draw(st.integers(1, 8))
    for index in range(total):
        step: JSONObject = {"id": f"s{index}"}
        if index and side_by_side and draw(st.booleans()):
            others = st.sampled_from([one["id"] for one in steps])
            step["needs"] = draw(st.lists(others, unique=True, max_size=3))
        # Also of steps that it does not wait for. But what a delay gives is a time, and not always the same.
        readable = [one["id"] for one in steps if one["type"] != "delay"]
        earlier = draw(st.sampled_from(["trigger", *readable]))
        # Items may fail their step, and the run with it.
        kinds = [kind for kind in _KINDS if kind != "each" or all_may_fail or not side_by_side]
        kind = draw(st.sampled_from(kinds))
        if kind == "transform":
            step |= {"type": "transform", "config": {"expression": f"[trigger.n, {earlier}]"}}
        elif kind == "condition":
            step |= {"type": "condition", "config": {"expression": f"trigger.n > {draw(st.integers(0, 60))}"}}
        elif kind == "webhook":
            url = f"http://h/{{{{ {earlier}.luck }}}}"
            step |= {"type": "webhook", "config": {"url": url}, "retry": {"max_attempts": 2}}
        elif kind == "lookup":
            step |= {"type": "ip_lookup", "config": {"field": f"{earlier}.ip"}}
        elif kind == "delay":
            step |= {"type": "delay", "config": {"seconds": draw(st.sampled_from([1, 60, 3600]))}}
        elif kind == "wait":
            config = {"timeout": draw(st.sampled_from([1, 60, 3600]))}
            step |= {"type": "wait", "config": config | {"on_timeout": draw(st.sampled_from(_ON_TIMEOUT))}}
        elif kind == "workflow":
            step |= {"type": "workflow", "config": {"workflow_id": _CHILD, "input": f"{{{{ {earlier} }}}}"}}
        elif kind == "remember":
            step |= {"type": "remember", "config": {"key": f"{{{{ {earlier}.ip }}}}", "ttl": 60}}
        elif kind == "emit":
            step |= {"type": "emit", "config": {"event": "workflow.alert", "data": f"{{{{ {earlier} }}}}"}}
        else:
            array = draw(st.sampled_from(["trigger.items", "[1, 2]", f"{earlier}.filler", f"[{earlier}]"]))
            one: JSONObject = {"type": "webhook", "config": {"url": "http://h/{{ item }}"}}
            child = {"type": "workflow", "config": {"workflow_id": _CHILD, "input": "{{ item }}"}}
            step |= {**draw(st.sampled_from([one, child])), "for_each": array}
            step |= {"max_concurrency": draw(st.sampled_from([1, 3, 50]))}
        if draw(st.integers(0, 4)) == 0:
            decided = draw(st.sampled_from(["trigger.n", f"{earlier}.luck", "sum(trigger)"]))
            step["if"] = f"{decided} > {draw(st.integers(0, 9))}"
        if (not all_may_fail and (side_by_side or kind == "each")) or draw(st.booleans()):
            step["on_error"] = "continue"
            if kind == "each":
                step["on_items"] = {"fail_if": draw(st.sampled_from(["any", "all", 0.5]))}
        steps.append(step)
    free: list[str] = [step["id"] for step in steps]
    for index, step in enumerate(steps):
        if step["type"] == "condition" and draw(st.booleans()):
            for branch in ("then", "else"):
                later = [step_id for step_id in free if int(step_id[1:]) > index]
                members = draw(st.lists(st.sampled_from(later), unique=True, max_size=2)) if later else []
                step["config"][branch] = members
                free = [step_id for step_id in free if step_id not in members]
    definition = {"name": "random", "steps": steps}
    Definition.model_validate(definition)
    return definition


def payloads(numbers: int) -> list[JSONObject]:
    return [{"n": n, "ip": "8.8.8.8", "items": list(range(n % 9))} for n in range(numbers)]


def same(definition: JSONObject, found: list[Any], expected: list[Any]) -> None:
    """The outcomes are equal; else say for the first row in what they differ."""
    for one, other in zip(found, expected, strict=True):
        if one != other:
            parts = [(str(a)[:2000], str(b)[:2000]) for a, b in zip(one, other, strict=True) if a != b]
            pytest.fail(f"{definition}: {parts}")
