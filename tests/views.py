"""Run objects as clients read them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson

from database import Connection
from models.runs import runs
from models.runs.run_views import RunView
from models.views import StoredJson


async def get_run(connection: Connection, account_id: UUID, run_id: UUID) -> RunView:
    """A run whose values are read from their JSON."""
    view = await runs.get(connection, account_id, run_id)
    steps = [
        step.model_copy(update={"input": _read(step.input), "output": _read(step.output)})
        for step in view.steps
    ]
    return view.model_copy(update={"input": _read(view.input), "output": _read(view.output), "steps": steps})


def _read(value: Any) -> Any:
    return orjson.loads(value.raw) if isinstance(value, StoredJson) else value
