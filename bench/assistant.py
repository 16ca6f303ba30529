"""The assistant with a real model: 40 tasks, each with a check of what came of it.

It needs a model: VEDETTE_CHAT_BASE_URL and VEDETTE_CHAT_MODEL (and VEDETTE_CHAT_KEY), as the service reads
them. It starts a stack of its own, approves all that the assistant asks for, and prints for each task whether
it was done, the calls, the tokens, the credits and the time.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.datasets import write_small_datasets
from tests.stacks import StackProcess

_CHAT = "/api/chat"
_NAMES = ("VEDETTE_CHAT_BASE_URL", "VEDETTE_CHAT_MODEL", "VEDETTE_CHAT_KEY")
_SECONDS = 600


@dataclass
class Outcome:
    """What came of a task: the answer, the calls in order, and the message as it ended."""

    answer: str
    calls: list[str]
    end: dict[str, Any]


Check = Callable[[httpx.AsyncClient, Outcome], Awaitable[bool]]
Prepare = Callable[[httpx.AsyncClient], Awaitable[str]]


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
        text: what is asked; `{id}` is what `prepare` has made.
        check: whether it was done.
        prepare: makes what the task is about.
    """

    text: str
    check: Check
    prepare: Prepare | None = None


def says(*patterns: str) -> Check:
    """Return whether the answer has all of these."""

    async def check(_: httpx.AsyncClient, outcome: Outcome) -> bool:
        return all(re.search(pattern, outcome.answer, re.IGNORECASE) for pattern in patterns)

    return check


def builds(trigger: str, *steps: str) -> Check:
    """Return whether the newest workflow has this trigger, and steps of these types among its own."""

    async def check(api: httpx.AsyncClient, _: Outcome) -> bool:
        found = (await api.get("/api/workflows", params={"limit": 1})).json()["workflows"]
        if not found or found[0]["trigger"]["type"] != trigger:
            return False
        return set(steps) <= {step["type"] for step in found[0]["steps"]}

    return check


def makes(path: str, noun: str | None, **fields: Any) -> Check:
    """Return whether the newest object at a path has these fields."""

    async def check(api: httpx.AsyncClient, _: Outcome) -> bool:
        found = (await api.get(path)).json()
        found = found if noun is None else found[noun]
        return bool(found) and all(found[0].get(name) == value for name, value in fields.items())

    return check


def lacks(path: str, name: str) -> Check:
    """Return whether the newest object at a path has another name, or there is none."""

    async def check(api: httpx.AsyncClient, _: Outcome) -> bool:
        found = (await api.get(path)).json()
        return not found or found[0]["name"] != name

    return check


def mends() -> Check:
    """Return whether the newest run has completed with a version above the first."""

    async def check(api: httpx.AsyncClient, _: Outcome) -> bool:
        found = (await api.get("/api/workflows/runs", params={"limit": 1})).json()["runs"]
        run = (await api.get(f"/api/workflows/runs/{found[0]['id']}")).json() if found else {}
        return run.get("status") == "completed" and run["workflow_version"] > 1

    return check


def failing(expression: str, event: Any) -> Prepare:
    """Return what makes a workflow with this step and has it fail with this event; its run is the subject."""

    async def prepare(api: httpx.AsyncClient) -> str:
        step = {"id": "compute", "type": "transform", "config": {"expression": expression}}
        made = await api.post("/api/workflows", json={"name": "Compute", "steps": [step]})
        path = f"/api/workflows/{made.json()['id']}/run"
        run = await api.post(path, json={"input": event}, params={"wait": 30})
        return str(run.json()["id"])

    return prepare


def watching(*targets: str) -> Prepare:
    """Return what makes a list of addresses, and it alone."""

    async def prepare(api: httpx.AsyncClient) -> str:
        for one in (await api.get("/api/lists")).json():
            await api.delete(f"/api/lists/{one['id']}")
        body = {"name": "Name servers", "type": "ip", "targets": list(targets)}
        return str((await api.post("/api/lists", json=body)).json()["id"])

    return prepare


_FAILS = [
    ("abs(trigger.amount)", {"amount": "12"}), ("trigger.a + trigger.b", {"a": 1, "b": "x"}),
    ("length(trigger.items)", {"items": 7}), ("sum(trigger.prices)", {"prices": ["1", "2"]}),
    ("to_number(trigger.n) / `0`", {"n": "4"}), ("join(',', trigger.names)", {"names": "ada"}),
    ("keys(trigger.list)", {"list": [1]}), ("max(trigger.values)", {"values": [1, "2"]}),
]  # fmt: skip
_SERVERS = watching("8.8.8.8", "1.1.1.1")

TASKS = [
    Task("In which city is 193.0.6.139?", says("Amsterdam")),
    Task("Which country is 8.8.8.8 in?", says("United States|USA|US")),
    Task("Where is 1.1.1.1, and in which time zone?", says("Sydney|Australia")),
    Task("Compare the countries of 8.8.8.8 and 193.0.6.139.", says("United States|US", "Netherlands|NL")),
    Task("Is +14155552671 a valid phone number? Of which country?", says("valid", "United States|US")),
    Task("Can admin@mailinator.com be a throw-away address?", says("disposable|throw-?away|temporary")),
    Task("What do you know of example.com on the dark web?", says("lockbit|ransom|mention|leak")),
    Task("How many credits do I have left?", says(r"\d")),
    Task("How do I retry a failed run from a step on?", says("retry", "from_step|from the step")),
    Task("How are webhooks signed?", says("Standard Webhooks|webhook-signature|HMAC|whsec")),
    Task("What does a lookup of a company cost?", says("credit", "person")),
    Task("How long can a delay step wait at most?", says("365")),
    Task("What happens if the power fails after an event was accepted?", says("disk|stored|run")),
    Task("How many steps may a workflow have?", says("100")),
    Task("How do I have a person approve a step?", says("wait")),
    Task("Which trigger starts a workflow for each row of a file?", says("file_upload|upload")),
    Task("Make a workflow that on an event looks up trigger.ip.", builds("webhook", "ip_lookup")),
    Task("Make a workflow that each day at 9 looks up 8.8.8.8.", builds("schedule", "ip_lookup")),
    Task("Make a workflow, started by hand, that answers the sum of trigger.a and trigger.b.",
         builds("manual", "transform")),
    Task("Make a workflow: on an event look up trigger.ip; go on only if it is not in the US.",
         builds("webhook", "ip_lookup", "condition")),
    Task("Make a workflow that on an event waits an hour and then looks up trigger.email.",
         builds("webhook", "delay", "email_lookup")),
    Task("Make a workflow that asks a person before it looks up trigger.domain.",
         builds("webhook", "wait", "domain_lookup")),
    Task("Make a workflow that on an event looks up each of trigger.ips.", builds("webhook", "ip_lookup")),
    Task("Make a workflow that sends an alert event when trigger.level is above 5.",
         builds("webhook", "condition", "emit")),
    *(Task("Why did the run {id} fail? Mend the workflow and run it again.", mends(), failing(*one))
      for one in _FAILS),
    Task("Make a list of the IP addresses 8.8.8.8 and 9.9.9.9.", makes("/api/lists", None, target_count=2)),
    Task("Which targets are in the list {id}?", says("8.8.8.8", "1.1.1.1"), _SERVERS),
    Task("Add 9.9.9.9 to the list {id}.", makes("/api/lists", None, target_count=3), _SERVERS),
    Task("Watch 8.8.8.8 each day.", makes("/api/monitors", "monitors", monitor_type="ip")),
    Task("Watch the list {id} each week. What does a run cost?", says("2"), _SERVERS),
    Task("Delete the list {id}.", lacks("/api/lists", "Name servers"), _SERVERS),
    Task("Look up 8.8.8.8 and 1.1.1.1 as a job, and tell me their cities.", says("Mountain View", "Sydney")),
    Task("What happened in the account lately?", says(r"\w")),
]  # fmt: skip


async def _events(api: httpx.AsyncClient, path: str) -> AsyncGenerator[tuple[str, dict[str, Any]]]:
    name = ""
    async with api.stream("GET", path, timeout=_SECONDS) as response:
        async for line in response.aiter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield name, json.loads(line.removeprefix("data: "))


async def _ask(api: httpx.AsyncClient, text: str) -> Outcome:
    """Ask in a conversation of its own, and approve all that is asked for."""
    made = (await api.post(f"{_CHAT}/conversations", json={"credit_budget": 100})).json()["id"]
    path = f"{_CHAT}/conversations/{made}"
    sent = await api.post(f"{path}/messages", json={"text": text})
    sent.raise_for_status()
    outcome = Outcome("", [], {})
    async for name, data in _events(api, f"{path}/messages/{sent.json()['id']}/events"):
        match name:
            case "tool":
                outcome.calls.append(data["tool"])
            case "approval":
                body = {"decision": "approve", "arguments_hash": data["arguments_hash"]}
                await api.post(f"{path}/approvals/{data['id']}", json=body)
            case "answer":
                outcome.answer = data["text"]
            case "end":
                outcome.end = data
            case _:
                pass
    return outcome


async def _run(url: str, key: str) -> int:
    done = tokens = credits = calls = 0
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60, trust_env=False) as api:
        host = (await api.get(_CHAT)).json()["host"]
        (await api.put(f"{_CHAT}/consent", json={"host": host})).raise_for_status()
        for task in TASKS:
            subject = await task.prepare(api) if task.prepare else ""
            text, began = task.text.format(id=subject), time.perf_counter()
            outcome = await _ask(api, text)
            good = await task.check(api, outcome)
            done, tokens = done + good, tokens + outcome.end["tokens"]
            credits, calls = credits + outcome.end["credits"], calls + len(outcome.calls)
            mark, took = "ok  " if good else "FAIL", time.perf_counter() - began
            reason = f" ({outcome.end['reason']})" if outcome.end["reason"] else ""
            print(
                f"{mark} {len(outcome.calls):3} calls {outcome.end['tokens']:8} tokens"
                f" {outcome.end['credits']:3} credits {took:6.1f} s  {task.text}{reason}",
                flush=True,
            )
    print(f"{done} of {len(TASKS)} done; {calls} calls, {tokens} tokens, {credits} credits")
    return 0 if done == len(TASKS) else 1


async def _main() -> int:
    given = {name: os.environ[name] for name in _NAMES if os.environ.get(name)}
    if len(given.keys() & set(_NAMES[:2])) < 2:
        print(f"No model is set: nothing was measured. Set {_NAMES[0]} and {_NAMES[1]} to measure one.")
        return 0
    with tempfile.TemporaryDirectory(prefix="vedette-bench-") as folder:
        data = Path(folder) / "data"
        write_small_datasets(data)
        stack = StackProcess(data, VEDETTE_LOCAL_ONLY="1", **given)
        try:
            await stack.ready()
            return await _run(stack.url, stack.api_key)
        finally:
            await stack.stop()


if __name__ == "__main__":
    sys.exit(asyncio.run(_main()))
