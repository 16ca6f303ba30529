"""Each request to a source is counted by its outcome; cached answers ask nobody."""

from __future__ import annotations

import pytest

import metrics
from models.lookups.lookups import AllProvidersFailed
from tests.lookups.conftest import World


async def test_each_request_to_a_source_is_counted_by_its_outcome(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other tests of this process may have used up the series.
    monkeypatch.setattr(metrics.SOURCE, "_series", set[metrics.Labels]())
    provider = await world.provider("a", a__value=1)
    lookups = await world.process()
    metrics.SOURCE.take()
    for _ in range(2):
        await lookups.lookup("word", "known")
    provider.says(500)
    with pytest.raises(AllProvidersFailed):
        await lookups.lookup("word", "other")
    counted = {one.labels: sum(one.amounts[:-1]) for one in metrics.SOURCE.take()}
    assert counted == {("a", "ok"): 1, ("a", "error"): 1}
