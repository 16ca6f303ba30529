"""A client whose workers go through trouble: a test stands around every activity that they do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import temporalio.client
import temporalio.worker
from temporalio.client import Client, OutboundInterceptor, StartWorkflowInput, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

Do = Callable[[], Awaitable[Any]]
Around = Callable[[ExecuteActivityInput, Do], Awaitable[Any]]


class Lost(Exception):
    """What the server hears when an activity is lost: it tries again."""


class _Inbound(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, around: Around) -> None:
        super().__init__(following)
        self._around = around

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        return await self._around(input, lambda: self.next.execute_activity(input))


class _Faults(temporalio.client.Interceptor, temporalio.worker.Interceptor):
    def __init__(self, around: Around) -> None:
        self._around = around

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Inbound(next, self._around)


def with_faults(client: Client, around: Around) -> Client:
    """A client like `client`; `around` gets each activity of its workers, and the way to do it."""
    return _intercepted(client, _Faults(around))


class _DeafOutbound(OutboundInterceptor):
    async def start_workflow(self, input: StartWorkflowInput) -> WorkflowHandle[Any, Any]:
        await super().start_workflow(input)
        raise RPCError("the reply was lost", RPCStatusCode.UNAVAILABLE, b"")


class _Deaf(temporalio.client.Interceptor):
    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        return _DeafOutbound(super().intercept_client(next))


def without_replies(client: Client) -> Client:
    """A client like `client`, which never hears that a workflow has been started."""
    return _intercepted(client, _Deaf())


def _intercepted(client: Client, interceptor: temporalio.client.Interceptor) -> Client:
    config = client.config()
    config["interceptors"] = [interceptor]
    return Client(**config)
