"""The same runs as elsewhere with a worker that keeps no workflow in memory: every task replays them all."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from temporalio.api.enums.v1 import TaskQueueKind
from temporalio.client import Client

from database import Database, Notifier
from sealing import Keyring
from settings import Settings
from tests.automations import test_engine, test_steps
from tests.automations.engine import Endpoint, Run, transform, webhook, working
from tests.automations.test_dispatcher import batch_of


@pytest.fixture(scope="module")
async def notifier(
    open_settings: Settings, client: Client, database: Database, keyring: Keyring
) -> AsyncGenerator[Notifier]:
    async with working(open_settings, client, database, keyring, max_cached_workflows=0) as running:
        yield running


async def test_no_task_is_meant_for_a_worker_that_knows_the_workflow(
    run: Run, client: Client, database: Database, receiver: Endpoint
) -> None:
    view = await run([webhook(receiver.url), webhook(receiver.url, "next"), transform("end", "'done'")])
    handle = client.get_workflow_handle(f"automation/{await batch_of(database, view.id)}")
    await handle.result()
    history = await handle.fetch_history()
    scheduled = [event.workflow_task_scheduled_event_attributes for event in history.events]
    kinds = {task.task_queue.kind for task in scheduled if task.task_queue.name}
    assert view.output == "done" and kinds == {TaskQueueKind.TASK_QUEUE_KIND_NORMAL}


test_linear = test_engine.test_lookup_condition_transform_and_webhook_run_in_order
test_branches = test_engine.test_rows_of_one_batch_go_their_own_ways
test_side_by_side = test_engine.test_independent_steps_run_side_by_side
test_a_failing_row = test_engine.test_a_failing_row_does_not_harm_its_batch_mates
test_retries = test_engine.test_a_call_that_may_succeed_later_is_repeated_under_the_same_id
test_on_error = test_engine.test_a_failed_step_with_on_error_continue_lets_the_run_complete
test_early_results = test_engine.test_the_mates_of_a_slow_call_go_on_without_it
test_much_to_evaluate = test_engine.test_a_batch_that_has_much_to_evaluate_is_done_in_several_workflow_tasks
test_a_short_delay = test_engine.test_a_short_delay_waits_within_the_batch
test_a_long_delay = test_engine.test_a_long_delay_leaves_the_batch_and_its_mates_go_on
test_for_each = test_steps.test_a_step_with_for_each_gives_an_array_in_order
test_retries_of_items = test_steps.test_an_item_is_repeated_under_its_own_id_and_the_others_are_not
test_by_reference = test_steps.test_outputs_too_large_to_travel_can_be_read_by_every_kind_of_expression
test_in_parts = test_steps.test_inputs_that_pass_two_mebibytes_together_travel_in_parts
