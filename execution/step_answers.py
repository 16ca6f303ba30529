"""Answers to steps: posted answers, results of child runs, and counts of keys.

Each is repeatable from the record: a repeated call, even in another worker and later, returns the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from database import Database
from engine.calls import AttemptResult, Call, failed_attempt
from execution import clock
from execution.child_starts import PENDING, ChildStarts
from language.delays import write_time
from language.step_evaluation import alert_data_of, child_input_of, key_of, keys_of, prompt_of
from language.steps import EmitStep, RememberStep, WaitStep, WorkflowStep
from micro_batcher import MicroBatcher
from models.events import alerts
from models.events.event_data import WorkflowAlert
from models.runs import child_runs, prompts, step_answers
from models.runs.child_runs import Child, Key
from notifications import Notifier
from services.event_checks import EventChecks
from settings import Settings


def _why_failed(child: Child) -> str:
    """Return which run of which workflow failed, and why."""
    how = "failed" if child.status == "failed" else "was cancelled"
    told = f"The run {child.run_id} of the workflow {child.workflow} {how}"
    error = child.error or {}
    return f"{told} with {error['code']}: {error['message']}" if "code" in error else f"{told}."


class StepAnswers:
    """Executes the steps whose answers come from outside or from counting."""

    def __init__(
        self, database: Database, notifier: Notifier, checks: EventChecks, settings: Settings
    ) -> None:
        """Create the step answers.

        Args:
            database: the database with the answers.
            notifier: notifies dispatchers of accepted runs.
            checks: check the inputs of other workflows against their schemas.
            settings: contain the bounds on runs.
        """
        self._database = database
        self._starts = ChildStarts(database, notifier, checks, settings)
        self._children: MicroBatcher[Key, Child | None] = MicroBatcher(self._find_children, most=256)

    async def collect(self, run_id: UUID, call: Call, scope: Mapping[str, Any]) -> AttemptResult:
        """Return the answer that was posted to a waiting step; after its timeout no answer is accepted.

        The step's prompt is stored for the page of its resume URL.
        """
        step = call.step
        assert isinstance(step, WaitStep)
        prompt = prompt_of(step.config, scope)
        async with self._database.connection() as connection:
            found = await step_answers.find(connection, run_id, step.id)
            if found is None and call.expired:
                nothing = {"resumed": False, "body": None, "at": write_time(clock.now())}
                await step_answers.answer(connection, run_id, step.id, nothing)
                found = await step_answers.find(connection, run_id, step.id)
            elif found is None and prompt:
                await prompts.store(connection, run_id, step.id, prompt)
        if found is None:
            return PENDING
        asked = step.config.model_dump(include={"timeout", "on_timeout"}) | prompt
        if not found["resumed"] and step.config.on_timeout == "fail":
            return failed_attempt(
                "wait_timeout", "Nobody resumed the run within the timeout of the step.", asked
            )
        return AttemptResult(asked, found)

    async def remember(
        self, automation_id: UUID, run_id: UUID, call: Call, scope: Mapping[str, Any]
    ) -> AttemptResult:
        """Count one or several keys for the workflow."""
        step = call.step
        assert isinstance(step, RememberStep)
        several = step.config.keys is not None
        keys = keys_of(step.config, scope) if several else [key_of(step.config, scope)]
        async with self._database.connection() as connection:
            counted = await step_answers.remember(
                connection,
                step_answers.Counting(automation_id, keys, step.config.ttl, renew=step.config.renew),
                run_id=run_id,
                step_id=step.id,
                several=several,
            )
        return AttemptResult({"keys": keys} if several else {"key": keys[0]}, counted)

    async def emit(
        self,
        account_id: UUID,
        run_id: UUID,
        call: Call,
        scope: Mapping[str, Any],
        workflow: Mapping[str, Any],
    ) -> AttemptResult:
        """Emit an event to the account's webhooks, once for the run and the step."""
        step = call.step
        assert isinstance(step, EmitStep)
        data = alert_data_of(step.config, scope)
        alert = WorkflowAlert(
            run_id=run_id, workflow_id=UUID(workflow["id"]), workflow_name=workflow["name"], step_id=step.id,
            data=data,
        )  # fmt: skip
        sent = {"event": step.config.event, "data": data}
        async with self._database.transaction() as connection:
            place = await child_runs.lock_place_below(connection, run_id)
            if place is None:
                return PENDING
            if child_runs.is_too_deep(place.depth):
                return failed_attempt("chain_too_deep", child_runs.TOO_DEEP, sent)
            return AttemptResult(sent, await alerts.emit_once(connection, account_id, alert))

    async def run_child(
        self, account_id: UUID, run_id: UUID, call: Call, scope: Mapping[str, Any]
    ) -> AttemptResult:
        """Run another workflow once for the step or the item, and return its result."""
        step = call.step
        assert isinstance(step, WorkflowStep)
        automation_id = step.config.workflow_id
        key = child_runs.key_of(automation_id, run_id, step.id, call.item)
        child = await self._children.submit(key)
        asked: dict[str, Any] = {"workflow_id": str(automation_id)}
        if child is None:
            asked["input"] = child_input_of(step.config, scope)
            return await self._starts.begin(account_id, run_id, key, asked)
        asked["run_id"] = str(child.run_id)
        if child.status == "completed" and child.size > child_runs.MAX_OUTPUT_BYTES:
            most = child_runs.MAX_OUTPUT_BYTES // 1024**2
            message = f"The run {child.run_id} gave more than {most} MiB; have it give less."
            return failed_attempt("output_too_large", message, asked)
        if child.status == "completed":
            return AttemptResult(asked, child.output)
        if child.status in ("failed", "cancelled"):
            return failed_attempt("child_failed", _why_failed(child), asked)
        return PENDING

    async def _find_children(self, asked: list[Key]) -> list[Child | Exception | None]:
        async with self._database.connection() as connection:
            return [*await child_runs.find(connection, asked)]
