"""The sandbox of workflows, and the modules that pass through it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from temporalio.bridge.proto.workflow_activation import (
    InitializeWorkflow,
    WorkflowActivation,
    WorkflowActivationJob,
)
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.converter import (
    SerializationContext,
    StorageDriverStoreContext,
    WorkflowSerializationContext,
)
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions
from temporalio.workflow import Info

from temporal.converter import READABLE, REFUSED
from workflows.messages import AUTOMATION_RUN


def workflow_runner() -> WorkflowRunner:
    """Return the SDK's sandbox, with our own modules passed through.

    Loading the workflow's module anew for each run costs as much as everything else in a cold replay (23 ms
    of CPU against 14; 11 without a sandbox). Therefore the sandbox does not keep our few workflow modules
    from clocks, chance and I/O: tests/architecture checks them instead.
    """
    restrictions = SandboxRestrictions.default.with_passthrough_modules(
        "workflows", "language", "engine", "pydantic"
    )
    return _Runner(SandboxedWorkflowRunner(restrictions=restrictions))


class _Runner(WorkflowRunner):
    """A runner that answers for all payloads at once to which activity or timer they belong.

    The SDK would enter the sandbox anew for every such question, which was more than half of the cost of a
    cold replay. The answer matters only to converters that treat payloads differently by origin, or to
    storage outside of histories. Ours seals for a workflow id, which is the same for all payloads that a
    workflow of ours sends: it has no child workflows and signals no others.
    """

    def __init__(self, runner: WorkflowRunner) -> None:
        self._runner = runner

    def prepare_workflow(self, defn: Any) -> None:
        self._runner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return _Instance(self._runner.create_instance(det), det)

    def set_worker_level_failure_exception_types(self, types: Sequence[type[BaseException]]) -> None:
        self._runner.set_worker_level_failure_exception_types(types)


class _Instance(WorkflowInstance):
    """A workflow that rejects starts and signals without arguments, and starts of a type that its id forbids.

    An unsealed payload fails when it is decoded, but without payloads nothing is decoded. The SDK would call
    the workflow without its arguments, and fail its task for ever.
    """

    def __init__(self, instance: WorkflowInstance, det: WorkflowInstanceDetails) -> None:
        self._instance = instance
        self._defn: Any = det.defn
        self._id = det.info.workflow_id
        self._is_readable = self._id.startswith(READABLE)
        self._context = WorkflowSerializationContext(det.info.namespace, det.info.workflow_id)

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        for job in [job for job in act.jobs if not self._takes(job)]:
            if job.HasField("initialize_workflow"):
                return _fail_activation()
            act.jobs.remove(job)
        return self._instance.activate(act)

    def _takes(self, job: WorkflowActivationJob) -> bool:
        """Return whether a start or signal has the arguments that its target accepts; allow other jobs."""
        if job.HasField("initialize_workflow"):
            # Only this workflow type may have unsealed payloads, under the ids of users' runs.
            if self._is_readable:
                return self._defn.name == AUTOMATION_RUN and self._is_its_own(job.initialize_workflow)
            return _accepts(self._defn.run_fn, len(job.initialize_workflow.arguments))
        if job.HasField("signal_workflow"):
            signal = self._defn.signals.get(job.signal_workflow.signal_name)
            return signal is not None and _accepts(signal.fn, len(job.signal_workflow.input))
        return True

    def _is_its_own(self, start: InitializeWorkflow) -> bool:
        """Return whether a start, which any client can send, is of the run in the workflow's id."""
        try:
            [payload] = start.arguments
            given = json.loads(payload.data)
            UUID(given["claim_id"])
            return f"{READABLE}{UUID(given['run_id'])}" == self._id
        except (ValueError, TypeError, KeyError, AttributeError):
            return False

    def get_info(self) -> Info:
        return self._instance.get_info()

    def get_thread_id(self) -> int | None:
        return self._instance.get_thread_id()

    def get_serialization_context(self, command_info: object) -> SerializationContext | None:
        return self._context

    def get_external_store_context(self, command_info: object) -> StorageDriverStoreContext:
        return StorageDriverStoreContext(target=None)


def _accepts(method: Callable[..., object], arguments: int) -> bool:
    try:
        inspect.signature(method).bind(None, *range(arguments))
    except TypeError:
        return False
    return True


def _fail_activation() -> WorkflowActivationCompletion:
    """Return the completion that fails a workflow that was started without its arguments."""
    completion = WorkflowActivationCompletion()
    failure = completion.successful.commands.add().fail_workflow_execution.failure
    failure.message = "The workflow was started with other arguments than it takes."
    failure.application_failure_info.type = REFUSED
    failure.application_failure_info.non_retryable = True
    return completion
