"""Whether an activity acts for the workflow of its rows: whoever reaches Temporal can start others."""

from __future__ import annotations

from temporalio import activity
from temporalio.exceptions import ApplicationError

NOT_ITS_ROWS = "not_its_rows"
"""The type of the error that an activity ends in whose workflow is not that of the rows."""


def check_workflow(expected: str) -> None:
    """See that the workflow of the activity has this id.

    Payloads under the ids of runs are read as they are: without this, anybody could name there the job or the
    batch of others. Of the right id Temporal has one workflow open at a time.

    Raises:
        ApplicationError: it has another; trying again is of no use.
    """
    if activity.info().workflow_id != expected:
        message = "This workflow is not that of the rows."
        raise ApplicationError(message, type=NOT_ITS_ROWS, non_retryable=True)
