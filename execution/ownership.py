"""The check that an activity acts for the workflow of its rows, because other clients can start workflows."""

from __future__ import annotations

from temporalio import activity
from temporalio.exceptions import ApplicationError

NOT_ITS_ROWS = "not_its_rows"
"""The type of the error of an activity whose workflow does not belong to the rows."""


def check_workflow(expected: str) -> None:
    """Check that the workflow of the activity has this id.

    Payloads with the ids of runs are trusted: without this check, any client of Temporal could name another
    account's job or batch there. Temporal has only one open workflow with the right id at a time.

    Raises:
        ApplicationError: it has another id; a retry would not help.
    """
    if activity.info().workflow_id != expected:
        message = (
            f"The activity belongs to the workflow {activity.info().workflow_id}, its rows to {expected}."
        )
        raise ApplicationError(message, type=NOT_ITS_ROWS, non_retryable=True)
