"""How long a job will take is told from its pace of the last seconds, and from until when it waits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from models.jobs.jobs import view_of

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def job(**chosen: Any) -> dict[str, Any]:
    """A job of 1,000 rows, 20 of which it has done in the last 10 seconds."""
    standing = {
        "id": uuid4(), "name": None, "type": "ip", "fields": None, "left_out": [], "status": "running",
        "error": None,
        "total_rows": 1000, "processed_rows": 120, "failed_rows": 0, "paced_rows": 100,
        "paced_at": NOW - timedelta(seconds=10), "resumes_at": None, "now": NOW, "credits_used": 0,
        "credits_held": 0, "created_at": NOW, "started_at": NOW, "completed_at": None,
        "progressed_at": NOW - timedelta(seconds=2),
    }  # fmt: skip
    return standing | chosen


@pytest.mark.parametrize(
    ("standing", "seconds"),
    [
        ({}, 440),
        ({"paced_rows": 119}, 8800),
        ({"paced_rows": 120}, None),
        ({"resumes_at": NOW + timedelta(seconds=60)}, 500),
        ({"paced_rows": 120, "resumes_at": NOW + timedelta(seconds=60)}, 60),
        ({"resumes_at": NOW - timedelta(seconds=60)}, 440),
        ({"processed_rows": 1000}, 0),
        ({"status": "queued", "paced_at": None, "processed_rows": 0, "paced_rows": 0}, None),
        ({"status": "completed", "completed_at": NOW}, None),
    ],
    ids=[
        "by its pace", "a slow one", "no pace yet", "the wait comes on top", "a wait and no pace yet",
        "a wait that is over", "all done", "not begun", "ended",
    ],
)  # fmt: skip
def test_the_rest_takes_as_long_as_it_does_at_the_last_pace(
    standing: dict[str, Any], seconds: int | None
) -> None:
    assert view_of(job(**standing)).eta_seconds == seconds
