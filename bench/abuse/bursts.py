"""Bursts over the ends of a limit's windows, at two API processes at once."""

from __future__ import annotations

import asyncio
import time

from bench.abuse.cases import Tally, case
from bench.abuse.target import Target

_REQUESTS, _SECONDS = 10, 2
_FEW = {"VEDETTE_LIMIT_IP": f"{_REQUESTS}/{_SECONDS}"}


@case("bursts", "requests as fast as they go, at two processes, over the ends of a limit's windows")
async def bursts(target: Target, tally: Tally) -> None:
    """Check that no window of the limit's length holds more requests than the limit, and that it is used."""
    account = await target.new_account()
    passed: list[tuple[float, float]] = []
    async with target.other_api(**_FEW) as one, target.other_api(**_FEW) as other:
        clients = [await target.client(url, X_API_Key=account.secret) for url in (one, other)]
        end = time.monotonic() + target.times(10, 5)

        async def knock(number: int) -> None:
            while (sent := time.monotonic()) < end:
                answer = await clients[number % 2].post("/api/agent/ip", json={"ip": "127.0.0.1"})
                if answer.status_code == 200:
                    passed.append((sent, time.monotonic()))
                else:
                    tally.check(answer.status_code == 429, "the others are refused", answer.status_code)

        await asyncio.gather(*(knock(number) for number in range(8)))
    # A request was certainly admitted in a window if it was sent and answered within it.
    most = max(
        sum(sent >= first and answered < first + _SECONDS for sent, answered in passed) for first, _ in passed
    )
    tally.figures["most"] = f"{most} in any {_SECONDS} s"
    tally.check(most <= _REQUESTS, f"at most {_REQUESTS} in any {_SECONDS} s", most)
    tally.check(len(passed) > _REQUESTS, "there is room again", len(passed))
