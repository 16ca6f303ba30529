"""The sandbox that workflows run in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.converter import SerializationContext, StorageDriverStoreContext
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions
from temporalio.workflow import Info


def workflow_runner() -> WorkflowRunner:
    """The SDK's sandbox, with our own modules passed through.

    To load the module of the workflow anew for each run costs as much as all else in a cold replay (23 ms of
    CPU against 14; 11 without a sandbox). So it is not the sandbox that keeps our few workflow modules from
    clocks, chance and I/O: tests/architecture reads them for that.
    """
    restrictions = SandboxRestrictions.default.with_passthrough_modules("workflows", "pydantic")
    return _Runner(SandboxedWorkflowRunner(restrictions=restrictions))


class _Runner(WorkflowRunner):
    """A runner that is not asked, payload by payload, which activity or timer each belongs to.

    The SDK enters the sandbox anew for every such question: more than half of what a cold replay cost. Only
    converters that treat payloads differently by where they belong, or storage outside of histories, need the
    answer. Ours seals all alike.
    """

    def __init__(self, runner: WorkflowRunner) -> None:
        self._runner = runner

    def prepare_workflow(self, defn: Any) -> None:
        self._runner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return _Instance(self._runner.create_instance(det))

    def set_worker_level_failure_exception_types(self, types: Sequence[type[BaseException]]) -> None:
        self._runner.set_worker_level_failure_exception_types(types)


class _Instance(WorkflowInstance):
    def __init__(self, instance: WorkflowInstance) -> None:
        self._instance = instance

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        return self._instance.activate(act)

    def get_info(self) -> Info:
        return self._instance.get_info()

    def get_thread_id(self) -> int | None:
        return self._instance.get_thread_id()

    def get_serialization_context(self, command_info: object) -> SerializationContext | None:
        return None

    def get_external_store_context(self, command_info: object) -> StorageDriverStoreContext:
        return StorageDriverStoreContext(target=None)
