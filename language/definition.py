"""The models of a user's workflow, shared by create, update, validate and the interpreter."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from language.search import MAX_PATHS
from language.search import Path as SearchPath
from language.steps import MAX_STEPS, LookupStep, Step, StrictModel
from language.triggers import ManualTrigger, Ref, Trigger

MAX_DEFINITION_BYTES = 256 * 1024
SCOPE_ROOTS = ("trigger", "request", "run", "workflow", "steps")
RESERVED_IDS = frozenset({"trigger", "item", "run", "workflow", "steps", "secrets", "request"})

Status = Literal["active", "paused", "draft"]
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


class Concurrency(StrictModel):
    """The limit on concurrent runs of a workflow, and the treatment of the others."""

    limit: Annotated[int, Field(ge=1, le=10_000)] = Field(description="How many runs may have begun.")
    on_limit: Literal["queue", "skip"] = Field(
        default="queue",
        description="What becomes of a run over the limit: it waits for its turn, or is cancelled at once.",
    )


class OnFailure(StrictModel):
    """The consequence of a failed run."""

    workflow_id: Ref = Field(
        description="A workflow of the account that runs once for each run that has failed, with"
        " `{run, error, input}` as its `trigger`."
    )


Execution = Literal["auto", "workflow", "shift"]
"""The carrier of runs: Temporal workflows of their own, the shifts of workers, or either, as chosen by the
service.
"""


class Definition(StrictModel):
    """A workflow as its author wrote it. Its versions never change."""

    name: Name = Field(description="What the workflow is called.")
    description: str | None = Field(None, max_length=10_000, description="What it is for.")
    trigger: Trigger = Field(
        default_factory=lambda: ManualTrigger(type="manual"),
        description="What starts its runs; by default a call to `/run` alone.",
    )
    steps: list[Step] = Field(
        default_factory=list[Step],
        max_length=MAX_STEPS,
        description="What a run does, in this order unless `needs` says otherwise.",
    )
    input_schema: dict[str, Any] | None = Field(
        default=None, description="A JSON Schema (draft 2020-12) that the input of every run must meet."
    )
    concurrency: Concurrency | None = Field(
        default=None, description="How many runs of it there may be at a time; null for any number."
    )
    on_failure: OnFailure | None = Field(
        default=None, description="What runs when a run of it has failed; null for nothing."
    )
    search: list[SearchPath] = Field(
        default_factory=list[str],
        max_length=MAX_PATHS,
        description="Paths such as trigger.order_id: runs are found by the values there.",
    )
    agents: bool = Field(default=True, description="Whether agents (MCP) may see it and use it.")
    execution: Execution | None = Field(
        default=None,
        description="What takes its runs forward: `workflow`, each a Temporal workflow of its own; `shift`, a"
        " worker, many at once; `auto`, either. Null: as the installation says.",
    )

    @property
    def looks_up(self) -> bool:
        """Return whether it has lookup steps."""
        return any(isinstance(step, LookupStep) for step in self.steps)
