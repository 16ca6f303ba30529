"""The termination of workflows of earlier releases, whose runs have other carriers now."""

from __future__ import annotations

from temporalio.client import Client

import logs
from temporal.client import unless_missing

_log = logs.get(__name__)
_FORMER = "WorkflowType = 'AutomationBatch' and ExecutionStatus = 'Running'"


async def end_former_workflows(client: Client) -> int:
    """Terminate workflows of kinds that no longer exist; return their number.

    Raises:
        temporalio.service.RPCError: the server is away.
    """
    ended = 0
    async for workflow in client.list_workflows(_FORMER):
        with unless_missing():
            await client.get_workflow_handle(workflow.id).terminate("there are no batches of runs any more")
        ended += 1
    if ended:
        _log.info("former_workflows_ended", workflows=ended)
    return ended
