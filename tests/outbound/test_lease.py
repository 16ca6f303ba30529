"""When a call may begin: its process has shown lately that it lives, and nobody has taken over."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass

import pytest
from aiohttp.abc import ResolveResult

from outbound.client import Outbound
from outbound.lease import LeaseLost
from outbound.requests import OutgoingRequest
from tests.outbound.conftest import Names, Request, Serve
from tests.outbound.raw import LOOPBACK, response
from tests.stacks import eventually


@dataclass
class Held:
    can_start_calls: bool = True
    lost: bool = False


async def _one_hangs(request: Request, writer: asyncio.StreamWriter) -> None:
    if request.target == "/hang":
        await asyncio.Event().wait()
    writer.write(response(b"ok"))


async def test_a_call_that_waited_for_its_place_begins_only_while_its_lease_says_so(serve: Serve) -> None:
    server, lease = await serve(_one_hangs), Held()
    async with Outbound(LOOPBACK, max_calls=1) as outbound:
        outbound.lease = lambda: lease
        hanging = asyncio.create_task(outbound.send(OutgoingRequest("GET", server.url("/hang"))))
        await eventually(lambda: len(server.requests) == 1, what="the place is taken")
        waiting = asyncio.create_task(outbound.send(OutgoingRequest("GET", server.url("/next"))))
        lease.can_start_calls = False
        hanging.cancel()
        done, _ = await asyncio.wait([waiting], timeout=0.5)
        assert not done and len(server.requests) == 1
        lease.can_start_calls = True
        assert (await waiting).body == b"ok"


async def test_a_call_whose_lease_is_lost_is_never_made_and_leaves_its_place(serve: Serve) -> None:
    server, lost, new = await serve(_one_hangs), Held(can_start_calls=False, lost=True), Held()
    async with Outbound(LOOPBACK, max_calls=1) as outbound:
        outbound.lease = lambda: lost
        with pytest.raises(LeaseLost):
            await outbound.send(OutgoingRequest("GET", server.url()))
        assert server.requests == []
        outbound.lease = lambda: new
        assert (await outbound.send(OutgoingRequest("GET", server.url()))).body == b"ok"


async def test_a_question_to_a_source_goes_by_the_next_lease_if_its_first_is_lost(serve: Serve) -> None:
    server, leases = await serve(_one_hangs), [Held(can_start_calls=False)]
    async with Outbound(LOOPBACK) as outbound:
        outbound.lease = lambda: leases[-1]
        asking = asyncio.create_task(outbound.provider_client("some", guarded=True).get(server.url()))
        done, _ = await asyncio.wait([asking], timeout=0.3)
        assert not done and server.requests == []
        leases[0].lost = True
        leases.append(Held())
        assert (await asking).content == b"ok"


class _Stopped(Names):
    """Resolves; the process is stopped meanwhile, so that its lease changes."""

    def __init__(self, lease: Held, *, lost: bool) -> None:
        super().__init__({"some.example": [["127.0.0.1"]]})
        self._lease, self._lost = lease, lost

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        self._lease.can_start_calls, self._lease.lost = False, self._lost
        return await super().resolve(host, port, family)


async def test_a_call_whose_lease_is_lost_while_it_connects_is_never_made(serve: Serve) -> None:
    server, lease = await serve(_one_hangs), Held()
    async with Outbound(LOOPBACK, resolver=_Stopped(lease, lost=True)) as outbound:
        outbound.lease = lambda: lease
        with pytest.raises(LeaseLost):
            await outbound.send(OutgoingRequest("GET", f"http://some.example:{server.port}/"))
        assert server.requests == []


async def test_a_call_that_connected_waits_for_the_next_beat_of_its_lease(serve: Serve) -> None:
    server, lease = await serve(_one_hangs), Held()
    async with Outbound(LOOPBACK, resolver=_Stopped(lease, lost=False)) as outbound:
        outbound.lease = lambda: lease
        asking = asyncio.create_task(
            outbound.send(OutgoingRequest("GET", f"http://some.example:{server.port}/"))
        )
        await eventually(lambda: not lease.can_start_calls, what="the call resolves its name")
        done, _ = await asyncio.wait([asking], timeout=0.5)
        assert not done and server.requests == []
        lease.can_start_calls = True
        assert (await asking).body == b"ok"
