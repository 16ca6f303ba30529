"""A load of every kind of run for the faults of a stack, and the count of the results.

Events, delays, approvals and families are sent at a pace that a machine bears. Who sends repeats under the
same `Idempotency-Key` until it is acknowledged; from then on the run must end, once.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import httpx
import psycopg
from aiohttp import web

from bench.approvals import keyring_of
from bench.shapes import transform, webhook
from bench.stack import Stack
from models.runs.resume_tokens import StepPosition, make_token

_ANSWER_SECONDS = 0.02
_DELAY_SECONDS = 5
_CHILDREN = 5
_RESUMED_AFTER = 3.0
_AGAIN_SECONDS = 0.5
# The senders of each kind, and the pause of each between two requests.
_SENDERS = {"event": (4, 0.1), "delay": (1, 0.25), "approval": (1, 0.5), "family": (1, 2.0)}


class Call(NamedTuple):
    """A request of a step: its time, its port, and its `webhook-id`."""

    at: float
    port: int
    id: str
    until: float | None


@dataclass
class Receiver:
    """The other side of webhook steps."""

    url: str = ""
    calls: list[Call] = field(default_factory=list[Call])

    async def handle(self, request: web.Request) -> web.Response:
        """Record a request, and answer after a moment, so that some are always in progress."""
        at, body = time.time(), await request.json()
        until = body.get("until") if isinstance(body, dict) else None
        moment = None if until is None else datetime.fromisoformat(until).timestamp()
        peer = request.transport.get_extra_info("peername") if request.transport else ("", 0)
        self.calls.append(Call(at, peer[1], request.headers["webhook-id"], moment))
        await asyncio.sleep(_ANSWER_SECONDS)
        return web.json_response({"ok": True})


@asynccontextmanager
async def receiving() -> AsyncGenerator[Receiver]:
    """Serve on loopback for the block."""
    receiver, application = Receiver(), web.Application()
    application.router.add_route("*", "/{path:.*}", receiver.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    try:
        yield receiver
    finally:
        await runner.cleanup()


class Outcome(NamedTuple):
    """The result of a load.

    Attributes:
        acknowledged: the number of acknowledged runs.
        ended: the number of ended runs, with their children, by status.
        lost: acknowledged runs that are missing or not completed.
        stuck: runs that have not ended in time.
        doubled: calls that came again under their `webhook-id`.
        steps: calls that came under two ids instead of one.
        late: the greatest lateness of a delay in seconds.
        took: seconds until all had ended.
    """

    acknowledged: int
    ended: Mapping[str, int]
    lost: int
    stuck: int
    doubled: int
    late: float
    took: float


class Senders:
    """Sends every kind of run until it is stopped."""

    def __init__(self, stack: Stack, receiver: Receiver, *, verify: ssl.SSLContext | bool = True) -> None:
        """Prepare; `verify`: what certificates of the stack are held against."""
        self._stack = stack
        self._receiver = receiver
        self._keyring = keyring_of(stack)
        self._client = httpx.AsyncClient(
            base_url=stack.url, trust_env=False, timeout=10, verify=verify,
            headers={"Authorization": f"Bearer {stack.key}"},
        )  # fmt: skip
        self._paths: dict[str, str] = {}
        self._sending: list[asyncio.Task[None]] = []
        self._resuming: set[asyncio.Task[None]] = set()
        self._stopped = False
        self.refused: Counter[str] = Counter()
        self.acknowledged: dict[str, str] = {}

    async def open(self) -> None:
        """Create the workflows, and begin to send."""
        url = self._receiver.url
        call = webhook("call", url, {"n": "{{ trigger.n }}"})
        nap = {"id": "nap", "type": "delay", "config": {"seconds": _DELAY_SECONDS}}
        after = webhook("after", url, {"until": "{{ nap.until }}"})
        approval = {"id": "approval", "type": "wait"}
        child = await self._create("child", [call])
        family = {
            "id": "children", "type": "workflow", "for_each": "trigger.items",
            "config": {"workflow_id": child, "input": {"n": "{{ item }}"}},
        }  # fmt: skip
        await self._create("event", [call, transform("ok", {"ok": "call.body.ok"})])
        await self._create("delay", [nap, after])
        await self._create("approval", [approval, {**call, "needs": ["approval"]}])
        await self._create("family", [family])
        for kind, (senders, pause) in _SENDERS.items():
            self._sending += [asyncio.create_task(self._send(kind, pause)) for _ in range(senders)]

    async def stop(self) -> None:
        """Send nothing new; wait until all is acknowledged, and every approval is given."""
        self._stopped = True
        await asyncio.gather(*self._sending)
        await asyncio.gather(*self._resuming)
        await self._client.aclose()

    async def _create(self, kind: str, steps: list[dict[str, Any]]) -> str:
        document = {"name": kind, "trigger": {"type": "webhook"}, "steps": steps}
        answer = await self._client.post("/api/workflows", json=document)
        assert answer.status_code == 201, answer.text
        self._paths[kind] = urlsplit(answer.json()["webhook_url"]).path
        return answer.json()["id"]

    async def _send(self, kind: str, pause: float) -> None:
        while not self._stopped:
            key = str(uuid4())
            body = {"n": len(self.acknowledged), "items": list(range(_CHILDREN))}
            run_id = json.loads(await self._post(self._paths[kind], body, {202}, key))["run_id"]
            self.acknowledged[run_id] = kind
            if kind == "approval":
                task = asyncio.create_task(self._resume(UUID(run_id)))
                self._resuming.add(task)
                task.add_done_callback(self._resuming.discard)
            await asyncio.sleep(pause)

    async def _resume(self, run_id: UUID) -> None:
        await asyncio.sleep(_RESUMED_AFTER)
        path = f"/api/workflows/resume/{make_token(self._keyring, StepPosition(run_id, 0))}"
        # 409: it was received, though its answer was lost.
        await self._post(path, {"by": "ada"}, {200, 202, 409, 410}, str(uuid4()))

    async def _post(self, path: str, body: Any, wanted: set[int], key: str) -> bytes:
        while True:
            try:
                answer = await self._client.post(path, json=body, headers={"Idempotency-Key": key})
                if answer.status_code in wanted:
                    return answer.content
                self.refused[str(answer.status_code)] += 1
            except httpx.TransportError as error:
                self.refused[type(error).__name__] += 1
            await asyncio.sleep(_AGAIN_SECONDS)


async def settle(stack: Stack, senders: Senders, receiver: Receiver, seconds: float) -> Outcome:
    """Wait until all runs have ended or the time is over; return the result."""
    began = time.monotonic()
    url = stack.settings.database_url
    assert url is not None
    async with await psycopg.AsyncConnection[tuple[Any, ...]].connect(
        url.get_secret_value(), autocommit=True
    ) as connection:
        while True:
            [stuck] = await _row(connection, "select count(*) from run_work")
            if not stuck or time.monotonic() - began > seconds:
                break
            await asyncio.sleep(0.1)
        took = time.monotonic() - began
        cursor = await connection.execute(
            "select id::text, coalesce(status, 'unfinished'), parent_run_id is not null from runs"
        )
        found = {row[0]: (row[1], row[2]) for row in await cursor.fetchall()}
        if stuck:
            cursor = await connection.execute(
                "select run_id, status, held, begun, carrier, claim_id is not null, handed_at, wake_at,"
                " woken, lost, setbacks, now() - available_at from run_work limit 5"
            )
            for row in await cursor.fetchall():
                print(f"  stuck: {senders.acknowledged.get(str(row[0]))} {row}")
    known = senders.acknowledged
    lost = [one for one in known if found.get(one, ("gone", False))[0] != "completed"]
    for one in lost[:5]:
        print(f"  lost: {known[one]} {one} {found.get(one)}")
    ids = Counter(call.id for call in receiver.calls)
    late = max((call.at - call.until for call in receiver.calls if call.until), default=0.0)
    return Outcome(
        len(known), Counter(status for status, _ in found.values()), len(lost), stuck,
        sum(count - 1 for count in ids.values()), late, took,
    )  # fmt: skip


async def _row(connection: psycopg.AsyncConnection[tuple[Any, ...]], query: Any) -> tuple[Any, ...]:
    row = await (await connection.execute(query)).fetchone()
    assert row is not None
    return row


def utc(at: float) -> datetime:
    """Return a moment in the database's form."""
    return datetime.fromtimestamp(at, UTC)
