"""Many secrets, or a large answer: masking them works beside the loop that all runs share."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from execution.attempts import Performer
from execution.redaction import MASK, Redaction
from services.process_pool import ProcessPool

# The time that a loop spends on one of these is far above what a run of another account may wait.
SECRETS = [f"p<&>é{number:012x} /x" for number in range(300)]
LARGE: Any = {
    "status": 200,
    "body": {"e": 1, "s": [f"{number:03}" for number in range(1_000)], "x": SECRETS[7]},
}


@pytest.mark.parametrize(
    ("size", "apart"), {"a large answer": (1_000_000, True), "a small one": (100, False)}.values()
)
async def test_masking_that_costs_much_works_in_another_process(size: int, apart: bool) -> None:
    pool, nothing = ProcessPool(), Any
    performer = Performer(nothing, nothing, nothing, pool, nothing, nothing)
    try:
        masked: Any = await performer._redact_answer(uuid4(), Redaction(SECRETS), LARGE, size)
        assert masked == {**LARGE, "body": {**LARGE["body"], "x": MASK}}
        assert bool(pool.pids) is apart
    finally:
        await pool.close()
