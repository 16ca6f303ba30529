"""Runs definitions by a shift, by workflows of their own, or by both in turn with losses between."""

from __future__ import annotations

import asyncio
import copy
import json
import random
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any, Literal
from uuid import UUID, uuid4

from aiohttp import web

from database import Database
from models.accounts import accounts, secrets
from models.accounts.accounts import NewAccount
from models.audit import Actor
from models.errors import Conflict
from models.runs import resumption
from models.runs.run_views import RunView
from models.runs.runs import QUEUED_CHANNEL
from notifications import Notifier
from sealing import Keyring
from tests.automations.engine import Endpoint, NewTarget, accept, ended, transform
from tests.automations.own_runs import performers

JSONObject = dict[str, Any]
How = Literal["shift", "workflow", "turns"]
MOST_ATTEMPTS = 3
MANY_ITEMS = 25
"""More than are seen one by one in a workflow."""
_SECONDS = {1: 0.05, 60: 0.3, 3600: 2.1}
_SLOW_SECONDS = 0.6
"""How long a wait of so many seconds takes here: within its activity, as a nap, and parked."""
# Ids and times differ from run to run; numbers of ports do not.
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
_TIMES = {
    "queued_at", "started_at", "completed_at", "duration_ms", "at", "ended_at", "next_attempt_at",
    "attempt_started_at",
}  # fmt: skip
# Which sources a lookup has asked, and which answers were in memory.
_SOURCES = {"providers", "cached"}
_CARRIERS = {"performed_by", "carrier", "takeovers"}
_LOSE = (
    "update run_work set status = 'queued', carrier = null, claim_id = null, wake_at = null,"
    " handed_at = null, available_at = clock_timestamp() where (run_id = %(run)s or root_run_id = %(run)s)"
    " and status = 'running' and random() < 0.7"
)


def live(definition: JSONObject, url: str, child: str) -> JSONObject:
    """The definition with a receiver, a secret, a child, many items, and waits that there are."""
    changed = copy.deepcopy(definition)
    for number, step in enumerate(changed["steps"]):
        config = step["config"]
        if step.get("for_each") == "[1, 2]" and number % 2:
            step["for_each"] = "trigger.many"
        match step["type"]:
            case "webhook":
                config["url"] = config["url"].replace("http://h", f"{url}/{step['id']}")
                config["headers"] = {"X-Key": "{{ secrets.TOKEN }}"}
                step["retry"] = {"max_attempts": MOST_ATTEMPTS, "initial_seconds": 0.05}
            case "ip_lookup" if number % 2:
                step |= {"type": "username_lookup", "config": {"value": "ada"}}
            case "delay":
                config["seconds"] = _SECONDS[config["seconds"]]
            case "wait":
                config["timeout"] = 30 if is_resumed(step) else _SECONDS[config["timeout"]]
            case "workflow":
                config["workflow_id"] = child
            case _:
                pass
    return changed


def is_resumed(step: JSONObject) -> bool:
    """Return whether somebody comes, or its time ends."""
    return int(step["id"][1:]) % 2 == 0


def place_of(path: str) -> tuple[str, str]:
    """Of which run a path is, and which it is there."""
    _, tag, rest = path.split("/", 2)
    return tag, _TIME.sub("<time>", _ID.sub("<id>", rest))


class Luck:
    """Answers by the path alone: at once, at the second attempt, never, or that there is nothing."""

    def __init__(self) -> None:
        self._asked = Counter[str]()

    async def answer(self, request: web.Request) -> web.Response:
        call_id = request.headers["webhook-id"]
        self._asked[call_id] += 1
        _, path = place_of(request.path)
        luck = zlib.crc32(path.encode()) % 10
        status = 404 if luck == 0 else 503 if luck == 1 or (luck < 4 and self._asked[call_id] == 1) else 200
        if luck == 5:
            # While it is asked, waits of other steps end.
            await asyncio.sleep(_SLOW_SECONDS)
        filler = "x" * (70_000 if luck == 9 else 10)
        return web.json_response({"luck": luck, "filler": filler}, status=status, headers={"Date": "-"})


def apart_from_ids_and_times(value: Any) -> Any:
    """The value without what differs from one run to the next."""
    if isinstance(value, dict):
        found: dict[str, Any] = value
        return {
            name: apart_from_ids_and_times(one)
            for name, one in found.items()
            if name not in _TIMES | _SOURCES | _CARRIERS
        }
    if isinstance(value, list):
        members: list[Any] = value
        return [apart_from_ids_and_times(one) for one in members]
    return _TIME.sub("<time>", _ID.sub("<id>", value)) if isinstance(value, str) else value


class Carriers:
    """Runs definitions by either carrier, or by both in turn.

    Attributes:
        used: what has performed steps of runs that both took forward, and how often.
    """

    def __init__(
        self, database: Database, notifier: Notifier, keyring: Keyring, new_target: NewTarget,
        receiver: Endpoint,
    ) -> None:  # fmt: skip
        self._database, self._notifier, self._keyring = database, notifier, keyring
        self._new_target, self._receiver = new_target, receiver
        self.used: Counter[str] = Counter()
        receiver.handler = Luck().answer

    async def run(self, definition: JSONObject, payload: JSONObject, how: How) -> JSONObject:
        """What the rows of a run say at its end, what it has cost, and what the endpoint was asked for."""
        execution = None if how == "turns" else how
        account_id, tag = await self._account(), uuid4().hex
        mild = transform("out", "{luck: `5`, ip: '8.8.8.8', filler: [`1`, `2`]}")
        child = await self._new_target([mild], account_id, execution=execution)
        changed = live(definition, f"{self._receiver.url}/{tag}", str(child.automation_id))
        target = await self._new_target(changed["steps"], account_id, execution=execution)
        [run_id] = await accept(self._database, target, 1, payload | {"many": list(range(MANY_ITEMS))})
        beside = [asyncio.create_task(self._resume(run_id, changed))]
        if how == "turns":
            beside.append(asyncio.create_task(self._lose(run_id, random.Random(json.dumps(definition)))))
        try:
            view = await ended(self._database, self._notifier, account_id, run_id, 60)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
        by = set((await performers(self._database, run_id)).values())
        if how == "turns":
            self.used.update(by)
        else:
            assert by <= {"activity" if how == "workflow" else "shift"}, by
        assert not [*wrong_times(view)]
        rows = apart_from_ids_and_times(
            {
                "items": await self._items(run_id),
                **view.model_dump(mode="json"),
                "spent": await self._spent(account_id),
            }
        )
        return {**rows, "asked": self._asked(tag)}

    async def _account(self) -> UUID:
        async with self._database.transaction() as connection:
            account = await accounts.create_account(
                connection, NewAccount(f"{uuid4().hex}@example.com", "-", credits=100)
            )
            actor = Actor(account.id, "system", name="test")
            await secrets.put_secret(connection, self._keyring, actor, "TOKEN", "value")
        return account.id

    async def _resume(self, run_id: UUID, definition: JSONObject) -> None:
        """Post the answers of steps that wait, or are to wait, one after the other."""
        for step in definition["steps"]:
            if step["type"] == "wait" and is_resumed(step):
                await asyncio.sleep(0.4)
                with suppress(Conflict):
                    async with self._database.transaction() as connection:
                        await resumption.resume(connection, run_id, step["id"], {"luck": 5})
                self._notifier.notify(QUEUED_CHANNEL)

    async def _lose(self, run_id: UUID, chance: random.Random) -> None:
        """Take the run and its children from who has them, as who takes its worker for dead."""
        for _ in range(8):
            await asyncio.sleep(chance.uniform(0.02, 1.0))
            async with self._database.connection() as connection:
                await connection.execute(_LOSE, {"run": run_id})
            self._notifier.notify(QUEUED_CHANNEL)

    async def _items(self, run_id: UUID) -> list[JSONObject]:
        async with self._database.connection() as connection:
            cursor = await connection.execute(
                "select step_id, item, status, output, error, attempts, credits_used from run_step_items"
                " where run_id = %s order by step_id, item",
                (run_id,),
            )
            return await cursor.fetchall()

    async def _spent(self, account_id: UUID) -> list[int]:
        async with self._database.connection() as connection:
            cursor = await connection.execute(
                "select amount from credit_entries where account_id = %s and amount < 0 order by reference",
                (account_id,),
            )
            return [row["amount"] for row in await cursor.fetchall()]

    def _asked(self, tag: str) -> dict[str, JSONObject]:
        """By path: with how many ids, how many requests of each, and with which bodies, it was asked for."""
        asked: dict[str, JSONObject] = {}
        for request in self._receiver.requests:
            of, path = place_of(request["path"])
            if of == tag:
                found = asked.setdefault(path, {"times": Counter(), "bodies": set()})
                found["times"][request["headers"]["webhook-id"]] += 1
                body = json.loads(request["body"]) if request["body"] else None
                found["bodies"].add(json.dumps(apart_from_ids_and_times(body), sort_keys=True))
                assert request["headers"]["X-Key"] == "value"
        return {
            path: {"ids": len(one["times"]), "times": sorted(one["times"].values()), "bodies": one["bodies"]}
            for path, one in asked.items()
        }


def without_counts_of_attempts(rows: JSONObject) -> JSONObject:
    """Of a run that was lost: what nobody learned of is asked again, and may be answered otherwise."""
    told = copy.deepcopy(rows)
    for one in [*told["items"], *told["steps"]]:
        if one["error"] is None:
            one["attempts"] = None
        one.pop("attempt_log", None)
    for path in told["asked"].values():
        del path["times"]
    return told


def wrong_counts(rows: JSONObject) -> Iterator[Any]:
    """Steps whose attempts are not told of, each but the last; or are more than there may be."""
    for step in rows["steps"]:
        log = step["attempt_log"] or []
        numbers = [one["attempt"] for one in log]
        most = MOST_ATTEMPTS if step["type"] == "webhook" else 3
        if step["items_total"] is None and numbers != list(range(1, step["attempts"] or 1)):
            yield step["id"], step["attempts"], numbers
        if (step["attempts"] or 0) > most:
            yield step["id"], step["attempts"]
    for item in rows["items"]:
        if item["attempts"] > MOST_ATTEMPTS:
            yield item["step_id"], item["item"], item["attempts"]


def wrong_times(run: RunView) -> Iterator[tuple[str, list[datetime | None]]]:
    """Steps without items whose attempts lack a begin, an end or a next time, or have them out of order."""
    for step in run.steps:
        if not step.attempt_log:
            continue
        log = step.attempt_log
        times = [time for one in log for time in (one.started_at, one.ended_at, one.next_attempt_at)]
        if step.attempt_started_at is None:
            # It was cancelled before the next attempt.
            times.pop()
        else:
            times.append(step.attempt_started_at)
        times = [step.started_at, *times, step.completed_at]
        known = [time for time in times if time is not None]
        if len(known) < len(times) or known != sorted(known):
            yield step.id, times


def differences(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Return where two values differ, each place with what is there."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        members: JSONObject = one
        for name, member in members.items():
            yield from differences(member, other[name], f"{path}/{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, pair in enumerate(zip(one, other, strict=True)):
            yield from differences(*pair, f"{path}/{index}")
    elif one != other:
        yield path, one, other
