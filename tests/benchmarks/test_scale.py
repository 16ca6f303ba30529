"""The lines of `bench.scale`, and what it calls a bend."""

from __future__ import annotations

from bench.measuring import PARTS, Figures
from bench.scale import bends, lines

_VALUES = {
    "apis": [1, 2], "workers": [1], "workflows": [1, 5], "accounts": [1, 3], "execution": ["auto"],
    "stored": [10, 300, 200],
}  # fmt: skip


def figures(rate: float = 100, postgres: float = 1.0, api: float = 0.01) -> Figures:
    cpu = dict.fromkeys(PARTS, 1.0) | {"postgres": postgres, "api": api}
    return Figures(rate, (10, 20, 30), (1, 2), 0, 0, 0, cpu, 4096, 0)


def test_each_line_changes_one_thing_and_stored_runs_come_last() -> None:
    points = dict(lines(_VALUES))
    assert list(points) == [
        "base", "apis 2", "workflows 5", "accounts 3", "base again", "stored 200", "stored 300",
    ]  # fmt: skip
    assert points["apis 2"] == points["base"]._replace(apis=2)
    assert points["stored 200"] == points["base"]._replace(stored=200)


def test_each_account_has_a_workflow() -> None:
    assert dict(lines(_VALUES))["accounts 3"][2:4] == (3, 3)


def test_what_costs_more_than_a_quarter_more_bends() -> None:
    assert bends(figures(), figures(), figures(postgres=1.2)) == []
    assert bends(figures(), figures(), figures(rate=50, postgres=1.5)) == [
        "seconds a run 2.0 ×", "CPU of postgres 1.5 ×",
    ]  # fmt: skip


def test_what_the_base_points_differ_by_is_noise() -> None:
    assert bends(figures(postgres=1), figures(postgres=2), figures(postgres=3.9)) == []
    assert bends(figures(postgres=1), figures(postgres=2), figures(postgres=4.1)) == ["CPU of postgres 2.0 ×"]


def test_what_costs_next_to_nothing_is_left_out() -> None:
    assert bends(figures(), figures(), figures(api=0.04)) == []
