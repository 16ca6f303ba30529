"""Whatever becomes of sources: no change is false, none is missed, and nothing unheard is paid."""

from __future__ import annotations

import pytest

from tests.monitors.simulation import simulate


@pytest.mark.parametrize("seed", range(4))
def test_random_runs_say_what_the_model_says(seed: int) -> None:
    simulation = simulate(300, seed)
    assert simulation.changes > 50
    assert {name: count for name, count in simulation.faults.items() if count} == {}
