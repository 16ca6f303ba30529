"""The consequences of runs: chains of events and runs, and pages that others open by a link."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

from bench.abuse.cases import Tally, case
from bench.abuse.target import Target

_HOSTILE = '"><script>alert(1)</script><form action="https://evil.example">'


@case("chains", "forged numbers of runs that have led to an event")
async def chains(target: Target, tally: Tally) -> None:
    """Check that a too large or invalid number is refused, and any other only shortens the chain."""
    workflow = await (await target.account()).workflow([])
    client, path = await target.client(), urlsplit(str(workflow["webhook_url"])).path
    forged = {"0": 202, "5": 202, "6": 409, "999": 409, "1000": 400, "-1": 400, "1,1": 400, "x": 400, "": 400}
    for value, expected in forged.items():
        answer = await client.post(path, json={}, headers={"Vedette-Chain": value})
        tally.check(
            answer.status_code == expected, f"{value!r} is answered by {expected}", answer.status_code
        )


@case("resume pages", "markup in what a step asks, previews of its link, and answers that do not fit")
async def resume_pages(target: Target, tally: Tally) -> None:
    """Check that the page shows text, and that only a valid answer resumes the run."""
    account = await target.new_account()
    field: dict[str, Any] = {"type": "boolean", "title": _HOSTILE, "description": _HOSTILE}
    schema = {"type": "object", "properties": {_HOSTILE: field}, "required": [_HOSTILE]}
    config = {"title": "{{ trigger }}", "message": "{{ trigger }}", "input_schema": schema}
    workflow = await account.workflow([{"id": "ask", "type": "wait", "config": config}], name=_HOSTILE)
    path = f"/api/workflows/{workflow['id']}/run"
    run_id = (await account.key.post(path, json={"input": _HOSTILE})).json()["run_id"]
    async with asyncio.timeout(30):
        while True:
            run = (await account.key.get(f"/api/workflows/runs/{run_id}")).json()
            if run["status"] == "waiting":
                break
            await asyncio.sleep(0.1)
    page = urlsplit(str(run["resume_urls"]["ask"])).path
    client = await target.client(Accept="text/html")
    for method in ("GET", "HEAD", "OPTIONS", "PUT"):
        answer = await client.request(method, page)
        tally.check(
            "<script" not in answer.text and 'evil.example"' not in answer.text, f"{method} shows text"
        )
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    for form in (
        b"",
        b"field0=7",
        b"field0=true",
        b"&" * 5000,
        b"x=1&" * 5000,
        b"field0=%ff%00",
        b"\xff" * 99,
    ):
        answer = await client.post(f"{page}/form", content=form, headers=kind)
        tally.check(answer.status_code == 400, "an answer that does not fit is refused", answer.status_code)
        tally.check("<script" not in answer.text, "and shown as text")
    answers = await asyncio.gather(
        *(client.post(f"{page}/form", content=b"field0=0", headers=kind) for _ in range(10))
    )
    taken = [answer.status_code for answer in answers]
    tally.check(sorted(taken) == [200] + 9 * [409], "one answer is taken", taken)
