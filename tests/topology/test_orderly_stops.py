"""An API and a worker that are stopped under load: no client notices, and nothing is called twice."""

from __future__ import annotations

import pytest

from tests.topology.topology import Load

pytestmark = pytest.mark.topology


@pytest.mark.parametrize("name", ["app1/vedette-api", "app2/vedette-worker"])
async def test_nobody_notices_a_part_that_is_stopped_and_started(load: Load, name: str) -> None:
    await load.in_service()
    await load.all_end()
    refused, repeated = load.senders.refused.copy(), load.repeated()
    former = await load.topology.shifts() if name.endswith("worker") else None
    unit = load.topology.machines.units[name]
    assert await unit.stop() == 0, load.topology.machines.tails(name.partition("/")[0])
    await unit.start()
    await load.in_service(former)
    await load.all_end()
    assert load.senders.refused - refused == {}
    assert load.repeated() == repeated
