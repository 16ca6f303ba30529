"""What a run's rows say at its end is the same, by a shift, by its own workflow, and by both in turn."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from database import Database
from notifications import Notifier
from sealing import Keyring
from tests.automations import sources
from tests.automations.carriers import (
    Carriers,
    How,
    JSONObject,
    differences,
    without_counts_of_attempts,
    wrong_counts,
)
from tests.automations.engine import Endpoint, NewTarget, transform, webhook
from tests.engine.definitions import definitions, payloads

providers, live_settings = sources.providers, sources.live_settings
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("quick_watch")]
EXECUTION = "turns"
_HOW: tuple[How, ...] = ("shift", "workflow", "turns")


@pytest.fixture
def carriers(
    database: Database, notifier: Notifier, keyring: Keyring, new_target: NewTarget, receiver: Endpoint
) -> Carriers:
    return Carriers(database, notifier, keyring, new_target, receiver)


async def compare(carriers: Carriers, chosen: list[JSONObject], payload: JSONObject) -> None:
    """Run each definition by each carrier, and by both in turn, all at once; fail where they differ."""
    cases = [(definition, how) for definition in chosen for how in _HOW]
    found = await asyncio.gather(*(carriers.run(definition, payload, how) for definition, how in cases))
    for definition, by_shift, by_workflow, by_both in zip(
        chosen, found[::3], found[1::3], found[2::3], strict=True
    ):
        wrong: list[Any] = [one for rows in (by_shift, by_workflow, by_both) for one in wrong_counts(rows)]
        wrong += differences(by_shift, by_workflow)
        wrong += differences(without_counts_of_attempts(by_shift), without_counts_of_attempts(by_both))
        if wrong:
            pytest.fail(f"{json.dumps(definition)}: {wrong[:10]}")


@settings(
    max_examples=10,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(chosen=st.lists(definitions(), min_size=3, max_size=3), n=st.integers(0, 9))
async def test_a_run_comes_to_the_same_by_a_shift_by_its_own_workflow_and_by_both_in_turn(
    carriers: Carriers, chosen: list[JSONObject], n: int
) -> None:
    await compare(carriers, chosen, payloads(n + 1)[n])


async def test_both_carriers_take_part_in_a_run_that_is_lost_again_and_again(carriers: Carriers) -> None:
    calls = [webhook("http://h/{{ trigger.n }}", f"s{number}") for number in range(8)]
    pauses = [{"id": f"s{8 + number}", "type": "delay", "config": {"seconds": 60}} for number in range(4)]
    steps = [step for pair in zip(calls[:4], pauses, strict=True) for step in pair]
    definition = {"name": "turns", "steps": [*steps, *calls[4:], transform("s12", "'done'")]}
    for _ in range(6):
        # When it is lost, and how far it was, is left to chance.
        await compare(carriers, [definition], {"n": 1})
        if len(carriers.used) > 1:
            break
    assert set(carriers.used) == {"activity", "shift"}
