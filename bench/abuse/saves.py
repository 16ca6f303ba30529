"""Workflows that are expensive to save: wide families of large definitions, many at a time."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from bench.abuse.cases import Tally, case, milliseconds
from bench.abuse.target import Account, Target

_WIDTH = 100
_AT_ONCE = 8
_TEXT = "x" * 2400
"""Text that keeps a definition of a hundred steps within its 256 KiB."""


def _family(children: list[str]) -> dict[str, Any]:
    """Return a definition of 250 KiB whose steps run these workflows, one after the other."""
    steps = [
        {"id": f"s{n}", "type": "workflow", "config": {"workflow_id": child, "input": {"text": _TEXT}}}
        for n, child in enumerate(children)
    ]
    return {"name": "family", "trigger": {"type": "manual"}, "steps": steps}


@case("wide families", "saves of workflows that run 100 others, which run 100 others, eight at a time")
async def wide_families(target: Target, tally: Tally) -> None:
    """Check that they are saved or refused, and a neighbour is served meanwhile."""
    attacker, neighbour = await target.new_account(), await target.new_account()
    leaves = [(await attacker.workflow([]))["id"] for _ in range(target.times(_WIDTH, 10))]
    below = _family((leaves * _WIDTH)[:_WIDTH])
    children = [await _saved(attacker, below) for _ in range(target.times(_WIDTH, 5))]
    family = _family((children * _WIDTH)[:_WIDTH])
    answers: list[int] = []

    async def save_again() -> None:
        for _ in range(target.times(5, 2)):
            answers.append((await attacker.key.post("/api/workflows", json=family)).status_code)

    saving = asyncio.gather(*(save_again() for _ in range(_AT_ONCE)))
    slowest = 0.0
    while not saving.done():
        start = time.perf_counter()
        answer = await neighbour.key.get("/api/workflows")
        slowest = max(slowest, time.perf_counter() - start)
        tally.check(answer.status_code == 200, "a neighbour is answered", answer.status_code)
        await asyncio.sleep(0.02)
    await saving
    tally.figures["the neighbour's slowest"] = milliseconds(slowest)
    tally.check(slowest < 5, "a neighbour is answered soon", milliseconds(slowest))
    tally.check(set(answers) <= {201, 429}, "each is saved, or refused for now", set(answers))


async def _saved(account: Account, document: dict[str, Any]) -> str:
    answer = await account.key.post("/api/workflows", json=document)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]
