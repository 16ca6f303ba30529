"""Answers to runs that wait, while nobody is there to take them."""

from __future__ import annotations

import pytest
from temporalio.client import Client

from database import Database
from sealing import Keyring
from settings import Settings
from tests.api_server import running
from tests.automations.approvals import become, begin, parked, resume, shown, wait
from tests.automations.engine import hasty_worker, transform, working

STEPS = [wait(), transform("after", "approval.body")]


async def test_an_answer_that_comes_while_no_worker_is_there_is_honoured_later(
    open_settings: Settings, client: Client, database: Database, keyring: Keyring
) -> None:
    """The run waits in the record, and so does the answer; Temporal is not asked for either."""
    async with running(open_settings) as api:
        person = await api.person()
        async with working(open_settings, client, database, keyring):
            run_id = await begin(person, STEPS)
            url = (await become(person, run_id, "waiting"))["resume_urls"]["approval"]
            await parked(database, run_id)
        assert (await resume(api, url, json="later")).status_code == 202
        assert (await shown(person, run_id))["status"] == "queued"
        async with working(open_settings, client, database, keyring):
            assert (await become(person, run_id, "completed"))["output"] == "later"


@pytest.mark.long
async def test_a_run_outlives_the_worker_that_it_has_begun_to_wait_in(
    open_settings: Settings, client: Client, database: Database, keyring: Keyring
) -> None:
    async with running(open_settings) as api:
        person = await api.person()
        run_id = await begin(person, STEPS)
        with hasty_worker(open_settings, "models.runs.step_answers:find"):
            url = (await become(person, run_id, "running"))["resume_urls"]["approval"]
        await resume(api, url, json="early")
        async with working(open_settings, client, database, keyring):
            assert (await become(person, run_id, "completed"))["output"] == "early"
