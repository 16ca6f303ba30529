"""Search attributes: workflows and Schedules are found by them, on a server that has them.

We can add them to a self-hosted server. On Temporal Cloud only its operator can. Without them everything
works, but workflows are found only by their ids and types.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import (
    Client,
    CreateScheduleInput,
    Interceptor,
    OutboundInterceptor,
    ScheduleHandle,
    StartWorkflowInput,
    WorkflowHandle,
)
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

import logs

_log = logs.get(__name__)
ACCOUNT = SearchAttributeKey.for_keyword("VedetteAccount")
KIND = SearchAttributeKey.for_keyword("VedetteKind")
DEFINITION = SearchAttributeKey.for_keyword("VedetteDefinition")
TRIGGER = SearchAttributeKey.for_keyword("VedetteTrigger")
PARENT = SearchAttributeKey.for_keyword("VedetteParent")
VERSION = SearchAttributeKey.for_int("VedetteVersion")
_KEYWORDS = [key.name for key in (ACCOUNT, KIND, DEFINITION, TRIGGER, PARENT)]
SEARCH_ATTRIBUTES = {
    **dict.fromkeys(_KEYWORDS, IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD),
    VERSION.name: IndexedValueType.INDEXED_VALUE_TYPE_INT,
}
"""Our search attributes. They contain ids, kinds and version numbers, never personal data."""
REFUSED = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED)
"""The errors of a server that lets only its operator list or add search attributes."""
# The time without them before another attempt: they may have been added.
_AGAIN_SECONDS = 60.0

Given = TypeVar("Given", StartWorkflowInput, CreateScheduleInput)
Started = TypeVar("Started")


async def find_missing(client: Client, namespace: str) -> list[str]:
    """Return those of our search attributes that a server lacks.

    Raises:
        RPCError: it does not list them, or is away.
    """
    request = ListSearchAttributesRequest(namespace=namespace)
    known = await client.operator_service.list_search_attributes(request)
    return [name for name in SEARCH_ATTRIBUTES if name not in known.custom_attributes]


async def add_missing(client: Client, namespace: str) -> None:
    """Add the search attributes that a server lacks. A repeated call changes nothing.

    Raises:
        RPCError: it refuses, or is away.
    """
    if missing := await find_missing(client, namespace):
        wanted = {name: SEARCH_ATTRIBUTES[name] for name in missing}
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(namespace=namespace, search_attributes=wanted)
        )


def commands(namespace: str) -> str:
    """Return the commands by which an operator adds them: on their own server, and on Temporal Cloud."""
    types = {name: "Keyword" if name in _KEYWORDS else "Int" for name in SEARCH_ATTRIBUTES}
    own = " ".join(f"--name {name} --type {type}" for name, type in types.items())
    cloud = " ".join(f"--search-attribute {name}={type}" for name, type in types.items())
    return (
        f"temporal operator search-attribute create --namespace {namespace} {own}\n"
        f"or, on Temporal Cloud: tcld namespace search-attributes add --namespace {namespace} {cloud}"
    )


class WithoutIfRefused(Interceptor):
    """Repeats a start without search attributes if the server refuses it because it does not know them."""

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        """Wrap the client's calls."""
        return _WithoutIfRefused(next)


class _WithoutIfRefused(OutboundInterceptor):
    def __init__(self, next: OutboundInterceptor) -> None:
        super().__init__(next)
        self._without_until = 0.0

    async def start_workflow(self, input: StartWorkflowInput) -> WorkflowHandle[Any, Any]:
        return await self._start(super().start_workflow, input)

    async def create_schedule(self, input: CreateScheduleInput) -> ScheduleHandle:
        return await self._start(super().create_schedule, input)

    async def _start(self, start: Callable[[Given], Awaitable[Started]], given: Given) -> Started:
        if time.monotonic() >= self._without_until:
            try:
                return await start(given)
            except RPCError as error:
                if not given.search_attributes or not _unknown(error):
                    raise
                _log.error("search_attributes_missing", reason=error.message, remedy="see `vedette doctor`")
                self._without_until = time.monotonic() + _AGAIN_SECONDS
        return await start(replace(given, search_attributes=None))


def _unknown(error: RPCError) -> bool:
    is_invalid = error.status is RPCStatusCode.INVALID_ARGUMENT
    return is_invalid and "search attribute" in error.message.lower()
