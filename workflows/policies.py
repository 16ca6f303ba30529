"""Every timeout and retry policy, in one place.

A row's failure is a result, and its next attempt the row's own timer; Temporal's retries are for lost
workers and an absent database, so they go on for a day.
"""

from __future__ import annotations

from datetime import timedelta

from temporalio.common import RetryPolicy

from language.definition import WebhookStep
from workflows.messages import StepCalls

LOST_WORKER = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2, maximum_interval=timedelta(seconds=30)
)
A_DAY = timedelta(days=1)
# Activities beat every five seconds: a lost worker is noticed within this.
HEARTBEAT = timedelta(seconds=15)
SHORT = timedelta(seconds=30)
CHORE = timedelta(minutes=30)
CHORE_RETRY = RetryPolicy(initial_interval=timedelta(minutes=1), maximum_attempts=5)
# What a step may take beyond its call: waiting for a place among the outgoing calls, and the database. A lost
# worker is noticed by its silence, long before.
_MARGIN = timedelta(minutes=10)


def start_to_close(calls: StepCalls) -> timedelta:
    """How long one execution of a step over its rows may take."""
    step = calls.step
    return _MARGIN + timedelta(seconds=step.config.timeout if isinstance(step, WebhookStep) else 0)
