"""docs/deploy.md names for each block the machine that it is for, so that the topology can run it."""

from __future__ import annotations

from tests.topology.machines import MACHINES
from tests.topology.topology import BLOCKS


def test_each_block_is_for_machines_that_there_are() -> None:
    for block in BLOCKS:
        machines, _, path = block.role.partition(" ")
        assert {*machines.split(",")} <= {*MACHINES}, block.place
        assert path.startswith("/") or block.language == "sh", block.place
