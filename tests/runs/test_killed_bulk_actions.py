"""A worker that is killed while it carries out a bulk action."""

import signal

import pytest
from temporalio.client import Client

from database import Database
from sealing import Keyring
from settings import Settings
from tests.api_server import Api
from tests.automations.engine import hasty_worker, working
from tests.runs.bulk_actions import create_failing_runs, retries_of, retry_all, wait_for_action
from tests.stacks import eventually


@pytest.mark.long
@pytest.mark.parametrize("after", ["models.runs.bulk_actions:take", "models.runs.bulk_actions:record"])
async def test_its_share_is_taken_by_the_next(
    api: Api, open_settings: Settings, client: Client, database: Database, keyring: Keyring, after: str
) -> None:
    person = await api.person(credits=100)
    async with working(open_settings, client, database, keyring):
        workflow, failed = await create_failing_runs(person, 3)
    action_id = await retry_all(person, {"workflow_id": workflow})
    with hasty_worker(open_settings, after) as dying:
        await eventually(lambda: dying.exitcode is not None, 20, "the worker has died")
        assert dying.exitcode == -signal.SIGKILL
    assert await retries_of(person, workflow) == [], "nothing of the share was committed"
    async with working(open_settings, client, database, keyring):
        action = await wait_for_action(person, action_id)
    assert (action["done"], action["skipped"]) == (3, {})
    assert await retries_of(person, workflow) == sorted(failed)
