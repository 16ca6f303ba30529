"""Workers whose clocks are not the database's: what they begin and go on with takes as long as elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

import pytest

from database import Database
from execution import clock
from execution.hand_over import OwnPlaces
from tests.automations.engine import NewTarget, Work, accept, ended
from tests.automations.own_runs import delay, performers

_HOUR = timedelta(hours=1)


@pytest.fixture
def agreed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks that have shown the same so far; what a test finds out is forgotten after it."""
    monkeypatch.setattr(clock, "_ahead", timedelta())


@pytest.mark.executions("shift", "workflow")
@pytest.mark.parametrize("off", [-_HOUR, _HOUR])
@pytest.mark.usefixtures("agreed")
async def test_a_delay_is_as_long_where_the_clock_is_another(
    at_work: Work,
    database: Database,
    new_target: NewTarget,
    monkeypatch: pytest.MonkeyPatch,
    off: timedelta,
) -> None:
    set_clock(monkeypatch, off)
    target = await new_target([delay(3)])
    async with at_work() as notifier:
        [run_id] = await accept(database, target)
        view = await ended(database, notifier, target.account_id, run_id)
    assert view.started_at is not None and view.completed_at is not None
    assert timedelta(seconds=2.5) < view.completed_at - view.started_at < _HOUR


@pytest.mark.executions("workflow")
@pytest.mark.usefixtures("agreed")
async def test_a_timer_that_ends_a_little_early_is_not_taken_for_late(
    at_work: Work, database: Database, new_target: NewTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clocks differ by too little for it to be noticed."""
    preferred: list[bool] = []
    monkeypatch.setattr(OwnPlaces, "prefer_shift", lambda _: preferred.append(True))
    set_clock(monkeypatch, timedelta(seconds=0.6))
    target = await new_target([delay(4)])
    async with at_work() as notifier:
        [run_id] = await accept(database, target)
        assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
    assert not preferred
    assert await performers(database, run_id) == {"wait": "activity"}


def set_clock(monkeypatch: pytest.MonkeyPatch, off: timedelta) -> None:
    """Set the worker's clock this far from the database's."""

    class Other:
        @staticmethod
        def now(zone: tzinfo) -> datetime:
            return datetime.now(zone) + off

    monkeypatch.setattr(clock, "datetime", Other)


@pytest.mark.usefixtures("agreed")
def test_only_what_surely_differs_by_more_than_a_second_is_followed() -> None:
    def differs(seconds: float, *, asked: float = 0.01) -> float:
        clock.compare(datetime.now(UTC) + timedelta(seconds=seconds), asked)
        return (clock.now() - datetime.now(UTC)).total_seconds()

    assert differs(0.8) == pytest.approx(0, abs=0.1)
    assert differs(60, asked=5) == pytest.approx(0, abs=0.1)
    assert differs(60) == pytest.approx(60, abs=0.1)
    assert differs(60.7) == pytest.approx(60, abs=0.1)
    assert differs(-60) == pytest.approx(-60, abs=0.1)
    assert differs(0) == pytest.approx(0, abs=0.1)
