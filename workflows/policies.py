"""Every timeout and retry policy, in one place.

The failure of a step is handled by its run. Temporal's retries are for lost workers and an absent database.
"""

from __future__ import annotations

from datetime import timedelta

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityConfig

LOST_WORKER = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2, maximum_interval=timedelta(seconds=30)
)
# A call may wait for its place, for memory and for the database; heartbeats tell whether its worker lives.
A_DAY = timedelta(days=1)
# An outage of any length must not fail a batch.
FOR_EVER = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2, maximum_interval=timedelta(seconds=5)
)
AN_HOUR = timedelta(hours=1)
# Activities send a heartbeat every three seconds: a lost worker is noticed within this time.
HEARTBEAT = timedelta(seconds=10)
SHORT = timedelta(seconds=30)
QUICK = ActivityConfig(start_to_close_timeout=SHORT, retry_policy=FOR_EVER)
"""For an activity of a few statements."""
LONG = ActivityConfig(start_to_close_timeout=AN_HOUR, heartbeat_timeout=HEARTBEAT, retry_policy=FOR_EVER)
"""For an activity that sends or looks up."""
CHORE = timedelta(minutes=30)
CHORE_RETRY = RetryPolicy(initial_interval=timedelta(minutes=1), maximum_attempts=5)
# A decision waits for the database for five seconds. Costly expressions may take fifty.
DECIDE = timedelta(seconds=60)
ONCE = RetryPolicy(maximum_attempts=1)
LONGEST_NAP_SECONDS = 2.0
"""A run that waits for longer releases its claim."""
