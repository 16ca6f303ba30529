"""Steps that can never run are found when the workflow is saved."""

from __future__ import annotations

from typing import Any

import pytest

from language.expressions import Budget
from language.validation import reachability
from tests.language.documents import Step, condition, errors, transform

NEVER: dict[str, tuple[list[Step], set[int]]] = {
    "then of what is never true": ([condition("if", "1 > 2", then=["a"]), transform("a")], {1}),
    "else of what is always true": ([condition("if", "'x' == 'x'", **{"else": ["a"]}), transform("a")], {1}),
    "neither": ([condition("if", "true", then=["a"]), transform("a")], set()),
    "a condition that reads something": (
        [condition("if", "trigger.x > 2", then=["a"]), transform("a")], set(),
    ),
    "all after what ends the run": (
        [transform("a"), condition("if", "false"), transform("b"), transform("c")], {2, 3},
    ),
    "but not what is beside it": (
        [condition("if", "false"), transform("a", needs=[]), transform("b", needs=["a", "if"])], {2},
    ),
    "a branch of a branch": (
        [condition("if", "null", then=["if2"]), condition("if2", then=["a"], **{"else": ["b"]}),
         transform("a"), transform("b", on_error=["c"]), transform("c")],
        {1, 2, 3, 4},
    ),
    "but not what follows a branch": (
        [condition("if", "false", then=["a"]), transform("a"), transform("b")], {1},
    ),
    "a condition that always fails": ([condition("if", "length(5)", then=["a"]), transform("a")], set()),
}  # fmt: skip


@pytest.mark.parametrize("case", NEVER)
def test_steps_that_can_never_run_are_refused(case: str) -> None:
    steps, expected = NEVER[case]
    found = {pointer for pointer, code in errors(*steps) if code == "unreachable_step"}
    assert found == {f"/steps/{index}" for index in expected}


def test_the_work_of_all_conditions_together_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    budgets: list[Budget] = []

    def counted(*arguments: Any, **named: Any) -> Budget:
        budgets.append(Budget(*arguments, **named))
        return budgets[-1]

    monkeypatch.setattr(reachability, "Budget", counted)
    heavy = "`[" + ",".join("1" * 900) + "]` | [@,@,@][] | [*].[@,@] | length(@) > "
    steps = [condition(f"c{n}", f"{heavy}`{n}`", then=[f"s{n}"]) for n in range(20)]
    steps += [transform(f"s{n}", needs=[f"c{n}"]) for n in range(20)]
    assert errors(*steps) == set()
    [budget] = budgets
    assert budget.exhausted

    # What a few cheap ones are found out by is there in any case.
    cheap = [condition(f"c{n}", "1 > 2", then=[f"s{n}"]) for n in range(50)]
    assert len(errors(*cheap, *(transform(f"s{n}") for n in range(50)))) == 50
