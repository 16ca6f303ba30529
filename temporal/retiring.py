"""Ending the workflows of batches that nobody knows any more, such as those of the release before."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime, timedelta
from uuid import UUID

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

import logs
from temporal.starts import workflow_id
from workflows.messages import AUTOMATION_BATCH

_log = logs.get(__name__)
_PAGE = 200
# Of a batch that was done at once, the workflow is still about to learn so.
_YOUNGEST = timedelta(minutes=1)


async def retire_unknown_batches(
    client: Client, find_unknown: Callable[[Collection[UUID]], Awaitable[Collection[UUID]]]
) -> int:
    """Terminate workflows of batches that are not in the record: their runs are in others by now.

    Args:
        client: of Temporal.
        find_unknown: of these ids of batches, those that are not in the record.

    Returns:
        How many there were.

    Raises:
        temporalio.service.RPCError: the server is away.
    """
    before = (datetime.now(UTC) - _YOUNGEST).isoformat()
    query = f"WorkflowType = '{AUTOMATION_BATCH}' and ExecutionStatus = 'Running' and StartTime < '{before}'"
    retired, page = 0, dict[UUID, str]()

    async def retire() -> None:
        nonlocal retired
        for batch_id in await find_unknown(page):
            try:
                await client.get_workflow_handle(page[batch_id]).terminate("its batch is not known")
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise
            retired += 1
        page.clear()

    async for workflow in client.list_workflows(query):
        with contextlib.suppress(ValueError):  # not of a batch: whoever reaches the server can name it so
            page[UUID(workflow.id.removeprefix(workflow_id("")))] = workflow.id
        if len(page) >= _PAGE:
            await retire()
    await retire()
    if retired:
        _log.info("unknown_batches_retired", workflows=retired)
    return retired
